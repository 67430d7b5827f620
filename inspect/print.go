// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"calico-vpp-services/services/model"
)

// Format is a form of output.
type Format string

// The forms of output.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// ParseFormat reads a format out of those that are accepted.
func ParseFormat(s string, accepted ...Format) (Format, error) {
	names := make([]string, len(accepted))
	for i, f := range accepted {
		if string(f) == s {
			return f, nil
		}
		names[i] = string(f)
	}
	return "", fmt.Errorf("output format %q: accepted values are %s", s, strings.Join(names, ", "))
}

// maxTableBackends is how many backends a table names before it counts.
const maxTableBackends = 3

// Print writes translations in a format.
func Print(w io.Writer, f Format, rows []*model.TranslationState) error {
	switch f {
	case JSON:
		return PrintJSON(w, rows)
	case YAML:
		out, err := yaml.Marshal(rows)
		if err != nil {
			return err
		}
		_, err = w.Write(out)
		return err
	case Table, Wide:
		return printTable(w, f == Wide, rows)
	}
	return fmt.Errorf("output format %q is not known", f)
}

// PrintJSON writes v as indented JSON.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func printTable(w io.Writer, wide bool, rows []*model.TranslationState) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := "PROTO\tADDRESS\tSERVICE\tKIND\tSTATE\tBACKENDS\tWAITING"
	if wide {
		header += "\tVPP-ID\tLB\tHASH\tREAL\tUNSERVED\tERROR"
	}
	fmt.Fprintln(t, header)
	for _, r := range rows {
		line := []string{
			r.Proto, net.JoinHostPort(r.IP, strconv.Itoa(int(r.Port))), string(r.Service), r.Kind, string(r.State),
			backends(r.Backends, wide), waiting(r.Waiting),
		}
		if wide {
			id := "-"
			if r.VPPID != nil {
				id = strconv.FormatUint(uint64(*r.VPPID), 10)
			}
			line = append(line, id, r.LBType, dash(strings.Join(r.Hash, ",")), strconv.FormatBool(r.Real), dash(r.Unserved), dash(r.Error))
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if !wide {
		return printErrors(w, rows)
	}
	return nil
}

// printErrors says under the table what is wrong with the failed keys; the
// table itself has no room for it.
func printErrors(w io.Writer, rows []*model.TranslationState) error {
	for _, r := range rows {
		if r.Error == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s %s: %s\n", r.Proto, net.JoinHostPort(r.IP, strconv.Itoa(int(r.Port))), r.Error); err != nil {
			return err
		}
	}
	return nil
}

func backends(list []model.BackendState, all bool) string {
	if len(list) == 0 {
		return "-"
	}
	shown := list
	if !all && len(list) > maxTableBackends {
		shown = list[:maxTableBackends]
	}
	names := make([]string, 0, len(shown)+1)
	for _, b := range shown {
		n := net.JoinHostPort(b.IP, strconv.Itoa(int(b.Port)))
		if b.NoNAT {
			n += " (no NAT)"
		}
		names = append(names, n)
	}
	if more := len(list) - len(shown); more > 0 {
		names = append(names, fmt.Sprintf("+%d more", more))
	}
	return strings.Join(names, ", ")
}

func waiting(ids []model.ServiceID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	return dash(strings.Join(names, ", "))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
