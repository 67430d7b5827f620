// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"sync/atomic"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/memclnt"
)

// Counters counts calls to VPP by what they do. The zero value is ready; it is
// safe for use from several goroutines.
type Counters struct {
	update, del, dump, other, failed atomic.Uint64
}

// Calls is a reading of Counters.
type Calls struct {
	// Update and Del count cnat_translation_update and _del as sent.
	Update uint64 `json:"update"`
	Del    uint64 `json:"del"`
	// Dump counts translation dumps.
	Dump uint64 `json:"dump"`
	// Other counts everything else but pings.
	Other uint64 `json:"-"`
	// Failed counts the calls of any kind that ended with an error.
	Failed uint64 `json:"-"`
}

// Read returns the counts so far.
func (c *Counters) Read() Calls {
	if c == nil {
		return Calls{}
	}
	return Calls{
		Update: c.update.Load(), Del: c.del.Load(), Dump: c.dump.Load(),
		Other: c.other.Load(), Failed: c.failed.Load(),
	}
}

// Sub returns what was counted since o was read.
func (c Calls) Sub(o Calls) Calls {
	return Calls{c.Update - o.Update, c.Del - o.Del, c.Dump - o.Dump, c.Other - o.Other, c.Failed - o.Failed}
}

// Writes is the number of calls that change translations.
func (c Calls) Writes() uint64 { return c.Update + c.Del }

// count notes a message that is about to be sent.
func (s *Session) count(m api.Message) {
	c := s.cfg.Counters
	if c == nil {
		return
	}
	switch m.(type) {
	case *cnat.CnatTranslationUpdate:
		c.update.Add(1)
	case *cnat.CnatTranslationDel:
		c.del.Add(1)
	case *cnat.CnatTranslationDump:
		c.dump.Add(1)
	case *memclnt.ControlPing:
	default:
		c.other.Add(1)
	}
}

func (s *Session) countFailed() {
	if s.cfg.Counters != nil {
		s.cfg.Counters.failed.Add(1)
	}
}
