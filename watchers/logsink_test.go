// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"errors"
	"testing"

	"github.com/sirupsen/logrus"
	"k8s.io/klog/v2"
)

func TestWhatClientGoLogsIsDebug(t *testing.T) {
	for level, want := range map[logrus.Level]int{logrus.InfoLevel: 0, logrus.DebugLevel: 3} {
		log, buffer := newLog()
		log.Logger.SetLevel(level)
		l := klog.FromContext(withLogger(t.Context(), log))
		l.V(2).Info("Caches populated", "type", "*v1.Service")
		l.V(4).Info("too much")
		l.WithName("reflector").WithValues("odd").Info("Watch closed")
		l.Error(errors.New("broken"), "Failed to watch", "reflector", "x")
		if got := buffer.count("level=debug"); got != want || buffer.count("\n") != want {
			t.Errorf("at %s: %d lines, wanted %d:\n%s", level, got, want, buffer)
		}
	}
}
