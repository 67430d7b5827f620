// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Requests are few: three lists and three watches, and Events about Services.
const (
	clientQPS   = 20
	clientBurst = 40
)

// NewClientset returns a client for the API server of a kubeconfig, or, if that
// is empty, for the one of the cluster whose pod this process is in. Nothing is
// sent yet.
func NewClientset(kubeconfig string) (kubernetes.Interface, error) {
	cfg, err := clientConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = fmt.Sprintf("calico-vpp-services (%s/%s)", runtime.GOOS, runtime.GOARCH)
	cfg.QPS, cfg.Burst = clientQPS, clientBurst
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client for %s: %w: check the certificates and the server address in %s", cfg.Host, err, describeSource(kubeconfig))
	}
	return client, nil
}

func clientConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		switch {
		case errors.Is(err, rest.ErrNotInCluster):
			return nil, errors.New("kubernetes client: not in a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set): " +
				"give a kubeconfig, or manifests in place of a cluster")
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("kubernetes client: %w: the pod has no service account token: remove automountServiceAccountToken: false", err)
		case err != nil:
			return nil, fmt.Errorf("kubernetes client in a pod: %w", err)
		}
		return cfg, nil
	}
	if _, err := os.Stat(kubeconfig); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w: give the path of a file such as /etc/kubernetes/admin.conf", err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w: wanted a file that kubectl --kubeconfig takes", kubeconfig, err)
	}
	return cfg, nil
}

func describeSource(kubeconfig string) string {
	if kubeconfig == "" {
		return "the pod's service account"
	}
	return kubeconfig
}
