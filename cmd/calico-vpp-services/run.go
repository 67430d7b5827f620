// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	tomb "gopkg.in/tomb.v2"
	"k8s.io/client-go/kubernetes"

	"calico-vpp-services/inspect"
	"calico-vpp-services/metrics"
	"calico-vpp-services/services"
	"calico-vpp-services/services/health"
	"calico-vpp-services/services/resolve"
	"calico-vpp-services/watchers"
)

// inputFlags say where the objects come from.
type inputFlags struct {
	kubeconfig string
	manifests  string
}

func (i *inputFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&i.kubeconfig, "kubeconfig", "", "watch the API server of this kubeconfig (default: the cluster that this pod is in)")
	f.StringVar(&i.manifests, "manifests", "", "watch a YAML or JSON file, or a directory of them, instead of an API server")
	cmd.MarkFlagsMutuallyExclusive("kubeconfig", "manifests")
}

// input is where the objects come from, before anything is read.
type input struct {
	path   string               // of manifests, or
	client kubernetes.Interface // of an API server
	events *watchers.Events
}

// open reads the flags, and puts what they mean into the server's
// configuration.
func (i *inputFlags) open(cfg *services.Config) (*input, error) {
	switch {
	case i.manifests != "":
		cfg.Sources = []string{watchers.SourceFiles}
		return &input{path: i.manifests}, nil
	case i.kubeconfig == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "":
		return nil, errors.New("no input: give --manifests (try --manifests yaml/demo) or --kubeconfig, or run in a pod of a cluster")
	}
	client, err := watchers.NewClientset(i.kubeconfig)
	if err != nil {
		return nil, err
	}
	in := &input{client: client, events: watchers.NewEvents(client, cfg.NodeName)}
	cfg.Sources, cfg.Reporter = []string{watchers.SourceKubernetes}, in.events
	return in, nil
}

// serve has the agent's server fed.
func (in *input) serve(a *agent, cfg *services.Config) error {
	log := a.log.WithField("part", "watchers")
	selection := resolve.Selection{ProxyName: cfg.Resolve.ServiceProxyName}
	if in.client == nil {
		fc := watchers.DefaultFilesConfig(in.path)
		fc.NodeName, fc.Selection = cfg.NodeName, selection
		w, err := watchers.NewFiles(fc, a.server, log)
		if err != nil {
			return err
		}
		a.run(w.Serve)
		return nil
	}
	w, err := watchers.NewKubernetes(watchers.KubernetesConfig{Client: in.client, NodeName: cfg.NodeName, Selection: selection, ServiceCIDRs: true}, a.server, log)
	if err != nil {
		return err
	}
	a.run(in.events.Serve)
	a.run(w.Serve)
	return nil
}

type runOptions struct {
	input   inputFlags
	vpp     vppFlags
	node    nodeFlags
	socket  string
	once    bool
	timeout time.Duration
	output  string
	resync  time.Duration
	// dataplane
	interfaces []string
	pods       []string
	snat       bool
	exclude    []string
	claims     claimFlags
	health     string
	metrics    string
	cleanup    bool
	grace      time.Duration
}

func newRun(log *logrus.Entry) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent: keep VPP's translations as the objects ask",
		Long: `run watches Services, EndpointSlices and this node's Node, and keeps the translations in
VPP's cnat plugin as they ask, until it is interrupted. What is in VPP then stays.

With --once it writes what is to be written, prints the table, and ends: with exit code 0 if
everything could be programmed.`,
		Example: `  # a small shop on the embedded simulator: no cluster, no VPP
  calico-vpp-services run --manifests yaml/demo --vpp embedded --node-name node-a --once

  # a real VPP and a real cluster
  calico-vpp-services run --kubeconfig ~/.kube/config --vpp-api-socket /run/vpp/api.sock --node-name node-a`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd, log) },
	}
	o.input.register(cmd)
	o.vpp.register(cmd, "")
	o.node.register(cmd)
	adminSocketFlag(cmd, &o.socket)
	f := cmd.Flags()
	f.BoolVar(&o.once, "once", false, "program what the objects ask for now, print the table, and end")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "with --once: how long to wait for the objects and for VPP")
	f.StringVarP(&o.output, "output", "o", "table", "with --once: form of the table: table, wide, json, yaml")
	f.StringSliceVar(&o.interfaces, "cnat-interface", nil, "VPP interface on which to switch cnat on, or a pattern such as tap*, may be repeated; not needed beside Calico's agent, which does it")
	f.StringSliceVar(&o.pods, "pod-interface", nil, "VPP interface, or pattern, with pods behind it: their packets keep their source to what --snat-exclude lists; with --snat")
	f.BoolVar(&o.snat, "snat", false, "have cnat source-NAT what needs it to the node's addresses; not needed beside Calico's agent")
	f.StringSliceVar(&o.exclude, "snat-exclude", nil, "destinations that need no source NAT, such as the pods' CIDR; with --snat")
	o.claims.register(cmd)
	f.StringVar(&o.health, "health-address", "", "ADDRESS:PORT on which to answer /healthz and /livez as kube-proxy does, such as 0.0.0.0:10256 (default: nowhere)")
	f.StringVar(&o.metrics, "metrics-address", "", "ADDRESS:PORT on which to answer Prometheus on /metrics (default: nowhere)")
	f.BoolVar(&o.cleanup, "cleanup-on-exit", false, "remove what is ours from VPP at the end, instead of leaving it as it is")
	f.DurationVar(&o.grace, "api-server-grace", 5*time.Minute, "how long the last backends of default/kubernetes are kept when it has none, so that an API server that restarts is found again; 0 is not at all")
	f.DurationVar(&o.resync, "resync-period", 60*time.Second, "how often VPP is dumped and compared; 0 is never")
	return cmd
}

// config puts the flags into the server's configuration.
func (o *runOptions) config() (services.Config, error) {
	cfg := services.DefaultConfig("")
	cfg.ResyncPeriod, cfg.CleanupOnExit, cfg.APIServerGrace = o.resync, o.cleanup, o.grace
	cfg.Dataplane.Interfaces, cfg.Dataplane.PodInterfaces, cfg.Dataplane.SNAT = o.interfaces, o.pods, o.snat
	exclude, err := resolve.ParsePrefixes(o.exclude)
	if err != nil {
		err = fmt.Errorf("--snat-exclude: %w", err)
	}
	cfg.Dataplane.SNATExclude = exclude
	return cfg, errors.Join(err, o.node.apply(&cfg), o.claims.apply(&cfg, o.vpp.mode))
}

func (o *runOptions) run(cmd *cobra.Command, log *logrus.Entry) error {
	format, err := inspect.ParseFormat(o.output, inspect.Table, inspect.Wide, inspect.JSON, inspect.YAML)
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	cfg, err := o.config()
	if err != nil {
		return err
	}
	in, err := o.input.open(&cfg)
	if err != nil {
		return err
	}
	if o.once {
		return o.runOnce(cmd.Context(), cmd.OutOrStdout(), format, in, cfg, log)
	}
	return o.runOn(cmd.Context(), in, cfg, log)
}

// runOnce is run --once.
func (o *runOptions) runOnce(ctx context.Context, w io.Writer, format inspect.Format, in *input, cfg services.Config, log *logrus.Entry) (err error) {
	a, err := newAgent(ctx, log, o.vpp, cfg)
	if err != nil {
		return err
	}
	defer a.finish(&err)
	if err := in.serve(a, &cfg); err != nil {
		return err
	}
	return once(ctx, a, w, format, o.timeout)
}

// runOn runs the agent until it is interrupted. What listens comes first: if
// another agent has the admin socket, VPP is that one's to write.
func (o *runOptions) runOn(ctx context.Context, in *input, cfg services.Config, log *logrus.Entry) (err error) {
	admin, err := inspect.NewServer(o.socket, log.WithField("part", "inspect"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin.Close()) }()
	// The proxy listens before there is a server to ask.
	var server atomic.Pointer[services.Server]
	var proxy *health.Proxy
	if o.health != "" {
		proxy, err = health.NewProxy(o.health, func() health.State { return server.Load().HealthState() }, log.WithField("part", "health"))
		if err != nil {
			return fmt.Errorf("--health-address: %w", err)
		}
		defer func() { err = errors.Join(err, proxy.Close()) }()
		if ap, perr := netip.ParseAddrPort(proxy.Addr().String()); perr == nil {
			cfg.Resolve.ProtectedNodePorts = append(cfg.Resolve.ProtectedNodePorts, ap.Port())
		}
	}
	var prom *metrics.Server
	latency := metrics.NewLatency()
	if o.metrics != "" {
		if prom, err = metrics.NewServer(o.metrics, log.WithField("part", "metrics")); err != nil {
			return fmt.Errorf("--metrics-address: %w", err)
		}
		defer func() { err = errors.Join(err, prom.Close()) }()
		cfg.Latency = latency
	}
	ports := health.NewNodePorts(log.WithField("part", "health"))
	cfg.HealthPorts = ports
	a, err := newAgent(ctx, log, o.vpp, cfg)
	if err != nil {
		return err
	}
	defer a.finish(&err)
	server.Store(a.server)
	if err := in.serve(a, &cfg); err != nil {
		return err
	}
	a.run(func(t *tomb.Tomb) error { return ports.ServeHealth(t, a.server.ReportProblem) })
	a.run(func(t *tomb.Tomb) error { return admin.ServeAdmin(t, a.server) })
	if proxy != nil {
		a.run(proxy.ServeProxyHealth)
	}
	if prom != nil {
		a.run(func(t *tomb.Tomb) error {
			return prom.ServeMetrics(t, metrics.NewCollector(a.server, a.link.Counters), latency)
		})
	}
	log.WithFields(logrus.Fields{"node": cfg.NodeName, "admin": o.socket}).Info("running; ask `calico-vpp-services show translations`")
	a.wait(ctx)
	if o.cleanup {
		log.Info("ending; what is ours is removed from VPP")
	} else {
		log.Info("ending; VPP is left as it is")
	}
	return nil
}

// once prints the table when everything is settled, and also when not.
func once(ctx context.Context, a *agent, w io.Writer, format inspect.Format, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	settled := make(chan error, 1)
	go func() { settled <- a.server.Settle(ctx) }()
	var err error
	select {
	case err = <-settled:
	case <-a.work.Dying():
		return nil // the agent's end says why
	}
	if perr := inspect.Print(w, format, a.server.Translations()); perr != nil {
		return errors.Join(err, perr)
	}
	return err
}
