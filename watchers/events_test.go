// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"fmt"
	"testing"
	"time"

	tomb "gopkg.in/tomb.v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"calico-vpp-services/services/model"
)

func shopWeb() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
}

func TestEventsReachTheService(t *testing.T) {
	client := fake.NewClientset()
	e := NewEvents(client, "node-a")
	var tb tomb.Tomb
	tb.Go(func() error { return e.Serve(&tb) })
	defer func() {
		tb.Kill(nil)
		if err := tb.Wait(); err != nil {
			t.Error(err)
		}
	}()
	p := model.Problem{Reason: model.ReasonKeyLost, Field: "TCP;198.51.100.10;80", Message: "is shop/other's"}
	deadline := time.Now().Add(10 * time.Second)
	for {
		e.Report(shopWeb(), p) // what is alike is counted, not repeated
		list, err := client.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) > 0 && list.Items[0].Count > 1 {
			got := list.Items[0]
			if got.Reason != "KeyLost" || got.Type != "Warning" || got.InvolvedObject.Name != "web" || got.InvolvedObject.Kind != "Service" ||
				got.Message != "TCP;198.51.100.10;80: is shop/other's" || got.Source.Component != Component || got.Source.Host != "node-a" {
				t.Errorf("event %+v", got)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("events %+v", list.Items)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestEventsNeverBlock: an API server that does not answer holds nobody up.
func TestEventsNeverBlock(t *testing.T) {
	client := fake.NewClientset()
	release := make(chan struct{})
	client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-release
		return true, nil, fmt.Errorf("late")
	})
	e := NewEvents(client, "node-a")
	var tb tomb.Tomb
	tb.Go(func() error { return e.Serve(&tb) })
	start := time.Now()
	for i := range 20000 {
		e.Report(shopWeb(), model.Problem{Reason: model.ReasonUnsupported, Field: fmt.Sprint(i), Message: "x"})
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("20,000 reports took %s", d)
	}
	close(release)
	tb.Kill(nil)
	if err := tb.Wait(); err != nil {
		t.Error(err)
	}
}
