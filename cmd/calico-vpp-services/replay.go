// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/inspect"
	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
	"calico-vpp-services/services/resolve"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/watchers"
)

type replayOptions struct {
	vpp     vppFlags
	node    nodeFlags
	claims  claimFlags
	batch   bool
	output  string
	timeout time.Duration
}

// replayResult is what replay prints as JSON.
type replayResult struct {
	// Events is the number of events that were applied.
	Events int `json:"events"`
	// Translations are the claimed keys after the last event.
	Translations []*model.TranslationState `json:"translations"`
	VPPCalls     vpplink.Calls             `json:"vppCalls"`
	// Final is what VPP itself says that it holds, by a dump.
	Final []finalTranslation `json:"final"`
}

// finalTranslation is a dumped translation: the fields of a
// model.TranslationState that a dump can tell.
type finalTranslation struct {
	Proto    string               `json:"proto"`
	IP       string               `json:"ip"`
	Port     uint16               `json:"port"`
	VPPID    uint32               `json:"vppID"`
	LBType   string               `json:"lbType"`
	Backends []model.BackendState `json:"backends"`
}

func newReplay(log *logrus.Entry) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay FILE...",
		Short: "Play recorded watches through the agent and show what VPP ends up with",
		Long: `replay reads watch events, a JSON object a line, as "kubectl get services -A --watch
--output-watch-events -o json" prints them and "calico-vpp-services record" writes them, and
plays them through the agent, one event at a time: each is written to VPP before the next is
read. Several files are played one after the other; - is the standard input. What Services
may claim is decided by the same flags as in run: give those of the agent that is asked about.

Objects of kinds that the agent does not know are passed over with a warning; a line that
cannot be read is an error that names file and line.`,
		Example: `  calico-vpp-services replay watch.jsonl --node-name node-a
  kubectl get endpointslices -A --watch --output-watch-events -o json | calico-vpp-services replay - -o json`,
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return errors.New("no recording: give the files to play, or - for the standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error { return o.run(cmd, files, log) },
	}
	o.vpp.register(cmd, "embedded")
	o.node.register(cmd)
	o.claims.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.batch, "batch", false, "apply all events at once instead of one at a time")
	f.StringVarP(&o.output, "output", "o", "table", "form of the output: table, json")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait for VPP to take one event")
	return cmd
}

func (o *replayOptions) run(cmd *cobra.Command, files []string, log *logrus.Entry) (err error) {
	ctx := cmd.Context()
	format, err := inspect.ParseFormat(o.output, inspect.Table, inspect.JSON)
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	cfg := services.DefaultConfig("")
	cfg.Sources = []string{watchers.SourceReplay}
	cfg.ResyncPeriod = 0 // the calls that are counted are those for events
	if err := errors.Join(o.node.apply(&cfg), o.claims.apply(&cfg, o.vpp.mode)); err != nil {
		return err
	}
	// The whole input is read first: a broken line is no reason to leave half
	// a recording in VPP.
	events, err := readRecordings(cmd.InOrStdin(), files, resolve.Selection{ProxyName: cfg.Resolve.ServiceProxyName}, log)
	if err != nil {
		return err
	}
	if !hasNode(events, cfg.NodeName) {
		log.Warn(watchers.NoNode(cfg.NodeName))
	}
	a, err := newAgent(ctx, log, o.vpp, cfg)
	if err != nil {
		return err
	}
	defer a.finish(&err)
	playErr := o.play(ctx, a, events)
	if playErr != nil && ctx.Err() != nil {
		return playErr
	}
	res := replayResult{Events: len(events), Translations: a.server.Translations(), VPPCalls: a.link.Counters.Read()}
	if res.Final, err = finalDump(ctx, a.link); err != nil {
		return errors.Join(playErr, err)
	}
	if format == inspect.JSON {
		return errors.Join(playErr, inspect.PrintJSON(cmd.OutOrStdout(), res))
	}
	return errors.Join(playErr, res.print(cmd.OutOrStdout()))
}

func readRecordings(stdin io.Reader, files []string, sel resolve.Selection, log *logrus.Entry) ([]model.Event, error) {
	var events []model.Event
	for _, name := range files {
		err := func() error {
			in := stdin
			if name != "-" {
				f, err := os.Open(name)
				if err != nil {
					return fmt.Errorf("%w; give a file that `record` or kubectl wrote, or - for the standard input", err)
				}
				defer f.Close()
				in = f
			}
			replay := watchers.Replay{Name: name, Selection: sel, Warn: func(s string) { log.Warn(s) }}
			for r, err := range replay.Events(bufio.NewReader(in)) {
				if err != nil {
					return err
				}
				events = append(events, r.Event)
			}
			return nil
		}()
		if err != nil {
			return nil, err
		}
	}
	return events, nil
}

// hasNode tells whether there was ever a Node of that name.
func hasNode(events []model.Event, name string) bool {
	return slices.ContainsFunc(events, func(e model.Event) bool {
		_, isNode := e.Object.(*corev1.Node)
		return isNode && e.Op == model.Upsert && e.Object.GetName() == name
	})
}

// play sends the events. One at a time, the gate is open from the start, and
// what one event asks for is in VPP before the next is sent.
func (o *replayOptions) play(ctx context.Context, a *agent, events []model.Event) error {
	synced := model.Event{Op: model.Synced, Source: watchers.SourceReplay}
	settle := func() error {
		ctx, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		return a.server.Settle(ctx)
	}
	if o.batch {
		if err := a.server.Send(ctx, append(events, synced)...); err != nil {
			return err
		}
		return settle()
	}
	if err := a.server.Send(ctx, synced); err != nil {
		return err
	}
	// A key that VPP refuses keeps failing while the events go on; what counts is
	// how it stands at the end.
	err := settle()
	for _, e := range events {
		if serr := a.server.Send(ctx, e); serr != nil {
			return serr
		}
		if err = settle(); err != nil && ctx.Err() != nil {
			return err
		}
	}
	return err
}

// finalDump asks VPP by a connection of its own, whose calls are not counted.
func finalDump(ctx context.Context, cfg vpplink.Config) ([]finalTranslation, error) {
	cfg.Counters = nil
	s, err := vpplink.Connect(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("final dump: %w", err)
	}
	defer s.Close()
	dump, err := s.CnatTranslationDump(ctx)
	if err != nil {
		return nil, fmt.Errorf("final dump: %w", err)
	}
	out := make([]finalTranslation, len(dump))
	for i := range dump {
		row := model.NewTranslationState(&dump[i].Entry)
		out[i] = finalTranslation{row.Proto, row.IP, row.Port, dump[i].ID, row.LBType, row.Backends}
	}
	return out, nil
}

func (r *replayResult) print(w io.Writer) error {
	if err := inspect.Print(w, inspect.Table, r.Translations); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d events; VPP calls: %d update, %d delete, %d dump; VPP holds %d translations\n",
		r.Events, r.VPPCalls.Update, r.VPPCalls.Del, r.VPPCalls.Dump, len(r.Final))
	return err
}
