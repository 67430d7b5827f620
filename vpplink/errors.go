// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"errors"
	"strings"

	"go.fd.io/govpp/api"
)

// Errors that callers branch on.
var (
	// ErrSessionLost: the session has ended; whether VPP did what the call
	// asked is unknown. The cause is wrapped too.
	ErrSessionLost = errors.New("VPP session lost")
	// ErrInvalidEntry: the entry was refused before it was sent.
	ErrInvalidEntry = errors.New("invalid entry")
	// ErrSocketMissing: there is nothing at the API socket's path.
	ErrSocketMissing = errors.New("VPP API socket missing")
	// ErrIncompatible: VPP answers, and is not one that this build can program.
	ErrIncompatible = errors.New("incompatible VPP")
	// ErrPermission: the API socket may not be opened by this user.
	ErrPermission = errors.New("VPP API socket not accessible")
)

// IsSessionLost tells whether err means that the session has ended.
func IsSessionLost(err error) bool { return errors.Is(err, ErrSessionLost) }

// IsNotFound tells whether VPP answered that the thing does not exist.
func IsNotFound(err error) bool {
	var e api.VPPApiError
	return errors.As(err, &e) && (e == api.NO_SUCH_ENTRY || e == api.NO_SUCH_FIB || e == api.NO_SUCH_TABLE)
}

// apiError turns a retval into an error; govpp words it.
func apiError(retval int32) error {
	if retval == 0 {
		return nil
	}
	return api.RetvalToVPPApiError(retval)
}

// CompatError says why VPP can't be programmed. It unwraps to ErrIncompatible.
type CompatError struct {
	// Version is what VPP calls itself, such as 25.10-release; may be empty.
	Version string
	// Missing lists the messages, as name_crc, that VPP lacks.
	Missing []string
}

// Error names the version, what is missing, and the remedy.
func (e *CompatError) Error() string {
	version := e.Version
	if version == "" {
		version = "of unknown version"
	}
	var b strings.Builder
	b.WriteString("VPP " + version + " cannot be programmed: ")
	switch {
	case noneOf(e.Missing, "cnat_translation_update_"):
		b.WriteString("it is older than 26.06 or speaks another cnat API")
	default:
		b.WriteString("its cnat plugin is not loaded, or too old")
	}
	b.WriteString(" (missing: " + strings.Join(e.Missing, ", ") + "); run VPP 26.06 or later with `plugin cnat_plugin.so { enable }` in its startup.conf")
	return b.String()
}

// Unwrap makes errors.Is(err, ErrIncompatible) hold.
func (e *CompatError) Unwrap() error { return ErrIncompatible }

func noneOf(list []string, prefix string) bool {
	for _, s := range list {
		if strings.HasPrefix(s, prefix) {
			return false
		}
	}
	return true
}
