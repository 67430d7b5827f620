// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
)

// DefaultSocket is where VPP's API socket is unless its startup.conf says otherwise.
const DefaultSocket = "/run/vpp/api.sock"

// Config says how to reach VPP. DefaultConfig fills everything but Log.
type Config struct {
	// Socket is the path of VPP's API socket.
	Socket string
	// ClientName is what VPP lists the connection as (`show api clients`).
	ClientName string
	// CallTimeout bounds every call: the time until its reply, for a batch
	// until the next reply.
	CallTimeout time.Duration
	// ConnectTimeout bounds the handshake of a new connection.
	ConnectTimeout time.Duration
	// FinishTimeout is how long calls under way may take to end when the link
	// is shut down.
	FinishTimeout time.Duration
	// PingInterval is how often an idle connection is checked. A dead VPP is
	// noticed within it, and calls under way end then.
	PingInterval time.Duration
	// MinBackoff and MaxBackoff bound the pause between attempts to connect.
	MinBackoff, MaxBackoff time.Duration
	// MaxInFlight bounds how many messages of a batch wait for their reply.
	MaxInFlight int
	// Counters, when set, counts the calls of all sessions.
	Counters *Counters
	Log      *logrus.Entry
}

// DefaultConfig returns the configuration for a VPP at socket.
func DefaultConfig(socket string) Config {
	return Config{
		Socket:         socket,
		ClientName:     "calico-vpp-services",
		CallTimeout:    5 * time.Second,
		ConnectTimeout: 3 * time.Second,
		FinishTimeout:  2 * time.Second,
		PingInterval:   500 * time.Millisecond,
		MinBackoff:     50 * time.Millisecond,
		MaxBackoff:     500 * time.Millisecond,
		MaxInFlight:    64,
		Counters:       &Counters{},
		Log:            logrus.NewEntry(logrus.StandardLogger()),
	}
}

// Validate reports every wrong field at once.
func (c *Config) Validate() error {
	var errs []error
	if c.Socket == "" {
		errs = append(errs, errors.New("socket: empty; give the path of VPP's API socket, such as "+DefaultSocket))
	}
	if len(c.ClientName) == 0 || len(c.ClientName) > 63 {
		errs = append(errs, fmt.Errorf("client name %q: wanted 1 to 63 bytes", c.ClientName))
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"call timeout", c.CallTimeout}, {"connect timeout", c.ConnectTimeout},
		{"finish timeout", c.FinishTimeout}, {"ping interval", c.PingInterval}, {"minimal back-off", c.MinBackoff},
	} {
		if d.d <= 0 {
			errs = append(errs, fmt.Errorf("%s: %s is not a positive duration", d.name, d.d))
		}
	}
	if c.MaxBackoff < c.MinBackoff {
		errs = append(errs, fmt.Errorf("maximal back-off %s is below the minimal %s", c.MaxBackoff, c.MinBackoff))
	}
	if c.MaxInFlight < 1 {
		errs = append(errs, fmt.Errorf("max in flight: %d is not positive", c.MaxInFlight))
	}
	if c.Log == nil {
		errs = append(errs, errors.New("no logger"))
	}
	return errors.Join(errs...)
}
