// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"calico-vpp-services/services"
	"calico-vpp-services/services/book"
	"calico-vpp-services/services/model"
	"calico-vpp-services/services/resolve"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/vpplink/types"
	"calico-vpp-services/watchers"
)

// world is the objects as the API server has them, and how they came to be so.
type world struct {
	objects map[string]model.Event
	order   []string // keys of objects, by first appearance
	history [][]model.Event
}

// nodeA is in every world, until a script says otherwise.
const nodeA = `{apiVersion: v1, kind: Node, metadata: {name: node-a, labels: {topology.kubernetes.io/zone: zone-1}},
status: {addresses: [{type: InternalIP, address: 192.0.2.11}, {type: InternalIP, address: "2001:db8::11"}]}}`

func newWorld() (*world, error) {
	w := &world{objects: map[string]model.Event{}}
	events, err := readObjects("node-a", []byte(nodeA), resolve.Selection{})
	if err == nil {
		w.add(events)
	}
	return w, err
}

// add takes up a batch of changes.
func (w *world) add(events []model.Event) {
	w.history = append(w.history, events)
	for _, e := range events {
		key := keyOf(e.Object)
		_, known := w.objects[key]
		if e.Op == model.Delete {
			delete(w.objects, key)
			continue
		}
		if !known {
			w.order = append(w.order, key)
		}
		w.objects[key] = e
	}
}

// list returns what there is, as a relist would.
func (w *world) list() []model.Event {
	var out []model.Event
	seen := map[string]bool{}
	for _, key := range w.order {
		if e, there := w.objects[key]; there && !seen[key] {
			out, seen[key] = append(out, e), true
		}
	}
	return out
}

func keyOf(o metav1.Object) string {
	kind := "other"
	switch o.(type) {
	case *corev1.Service:
		kind = "service"
	case *discoveryv1.EndpointSlice:
		kind = "slice"
	case *corev1.Node:
		kind = "node"
	case *networkingv1.ServiceCIDR:
		kind = "servicecidr"
	}
	if o.GetNamespace() == "" {
		return kind + "/" + o.GetName()
	}
	return kind + "/" + o.GetNamespace() + "/" + o.GetName()
}

// readObjects reads YAML documents by the decoder that manifests and recordings
// are read by, and makes of each what a watch would. What that decoder warns of is
// a mistake of the script.
func readObjects(name string, data []byte, selection resolve.Selection) ([]model.Event, error) {
	var recording bytes.Buffer
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		object, err := yaml.YAMLToJSONStrict(doc)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if string(object) == "null" {
			continue
		}
		line, err := json.Marshal(map[string]any{"type": "ADDED", "object": json.RawMessage(object)})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		recording.Write(append(line, '\n'))
	}
	var out []model.Event
	var errs []error
	replay := watchers.Replay{Name: name, Selection: selection, Warn: func(s string) { errs = append(errs, errors.New(s)) }}
	for rec, err := range replay.Events(&recording) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, rec.Event)
	}
	if len(out) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("%s: no objects in it", name))
	}
	return out, errors.Join(errs...)
}

// agentOptions are the flags of "agent start": those of "calico-vpp-services run"
// that scripts need, -unsynced and -call-timeout.
type agentOptions struct {
	unsynced    bool
	selection   resolve.Selection
	callTimeout time.Duration
}

// parseAgent reads the flags.
func parseAgent(args []string) (*services.Config, *agentOptions, error) {
	cfg := services.DefaultConfig("node-a")
	cfg.Sources = []string{watchers.SourceReplay}
	cfg.ResyncPeriod = 0
	cfg.BatchWindow = time.Millisecond
	cfg.Reconcile.MinBackoff, cfg.Reconcile.MaxBackoff = 2*time.Millisecond, 20*time.Millisecond
	o := &agentOptions{}
	r := &cfg.Resolve

	f := flag.NewFlagSet("agent start", flag.ContinueOnError)
	f.SetOutput(discard{})
	f.BoolVar(&o.unsynced, "unsynced", false, "")
	f.DurationVar(&o.callTimeout, "call-timeout", vpplink.DefaultConfig("").CallTimeout, "")
	f.StringVar(&r.ServiceProxyName, "service-proxy-name", "", "")
	f.BoolVar(&r.ExternalIPs, "external-ips", true, "")
	f.BoolVar(&cfg.Dataplane.SNAT, "snat", false, "")
	f.DurationVar(&cfg.ResyncPeriod, "resync-period", 0, "")
	f.Func("mode", "", func(s string) (err error) {
		cfg.Mode, err = services.ParseMode(s)
		return err
	})
	f.Func("ownership", "", func(s string) (err error) {
		cfg.Ownership, err = book.ParsePolicy(s)
		return err
	})
	f.Func("reject-unserved", "", func(s string) (err error) {
		cfg.RejectUnserved, err = strconv.ParseBool(strings.NewReplacer("on", "true", "off", "false").Replace(s))
		return err
	})
	f.Func("load-balancer-source-ranges", "", func(s string) (err error) {
		r.SourceRanges, err = resolve.ParseSourceRangesPolicy(s)
		return err
	})
	f.Func("nodeport-addresses", "", func(s string) (err error) {
		r.NodePortAddresses, err = resolve.ParseNodePortAddresses(strings.Split(s, ","))
		return err
	})
	f.Func("cnat-interface", "", func(s string) error {
		cfg.Dataplane.Interfaces = append(cfg.Dataplane.Interfaces, s)
		return nil
	})
	f.Func("protected-node-ports", "", func(s string) error {
		r.ProtectedNodePorts = nil
		for _, p := range strings.Split(s, ",") {
			n, err := strconv.ParseUint(p, 10, 16)
			if err != nil {
				return err
			}
			r.ProtectedNodePorts = append(r.ProtectedNodePorts, uint16(n))
		}
		return nil
	})
	for name, list := range map[string]*[]netip.Prefix{
		"service-cidr": &r.ServiceCIDRs, "external-ips-allowed": &r.ExternalIPsAllowed,
		"guard-exempt": &r.GuardExempt, "snat-exclude": &cfg.Dataplane.SNATExclude,
	} {
		f.Func(name, "", func(s string) error {
			p, err := netip.ParsePrefix(s)
			*list = append(*list, p)
			return err
		})
	}
	if err := f.Parse(args); err != nil {
		return nil, nil, err
	}
	if f.NArg() > 0 {
		return nil, nil, fmt.Errorf("agent: %q is no flag", f.Arg(0))
	}
	o.selection.ProxyName = r.ServiceProxyName
	return &cfg, o, nil
}

// readEntries reads what the command vpp prints: leftovers for "load".
func readEntries(text string) ([]types.CnatTranslateEntry, error) {
	var out []types.CnatTranslateEntry
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) < 3 || words[1] != "->" {
			return nil, fmt.Errorf("%q: wanted PROTO;IP;PORT -> and its backends, each IP:PORT", strings.TrimSpace(line))
		}
		key, err := types.ParseKey(words[0])
		if err != nil {
			return nil, err
		}
		e := types.CnatTranslateEntry{Proto: key.Proto, IP: key.IP, Port: key.Port, Flags: types.FlagNoClient}
		for _, w := range words[2:] {
			hash, hashed := strings.CutPrefix(w, "hash=")
			switch {
			case w == "real":
				e.IsRealIP = true
			case w == "lb=maglev":
				e.LBType = types.LBMaglev
			case hashed:
				for name := range strings.SplitSeq(hash, ",") {
					bit, err := types.ParseFlowHash(name)
					if err != nil {
						return nil, err
					}
					e.Hash |= bit
				}
			default:
				b, err := netip.ParseAddrPort(w)
				if err != nil {
					return nil, err
				}
				e.Backends = append(e.Backends, types.Backend{IP: b.Addr(), Port: b.Port()})
			}
		}
		out = append(out, e)
	}
	return out, nil
}
