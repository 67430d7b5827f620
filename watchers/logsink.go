// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	"k8s.io/klog/v2"
)

// withLogger makes what client-go logs under ctx go to log, at debug: it is told
// at each try, in client-go's words; the board says what users need, once.
func withLogger(ctx context.Context, log *logrus.Entry) context.Context {
	return klog.NewContext(ctx, klog.New(&logSink{log.WithField("from", "client-go")}))
}

// RedirectClientLogs makes what client-go logs outside of any context go to log
// as well, for the whole process; without it, slow handlers are told of on
// stderr in klog's own format. It is for main to call.
func RedirectClientLogs(log *logrus.Entry) {
	klog.SetLogger(klog.New(&logSink{log.WithField("from", "client-go")}))
}

// maxVerbosity is how much of client-go's log is kept.
const maxVerbosity = 2

// logSink implements klog.LogSink.
type logSink struct{ log *logrus.Entry }

func (s *logSink) Init(klog.RuntimeInfo) {}

func (s *logSink) Enabled(level int) bool {
	return level <= maxVerbosity && s.log.Logger.IsLevelEnabled(logrus.DebugLevel)
}

func (s *logSink) Info(_ int, msg string, kv ...any) { s.log.WithFields(toFields(kv)).Debug(msg) }

func (s *logSink) Error(err error, msg string, kv ...any) {
	s.log.WithFields(toFields(kv)).WithError(err).Debug(msg)
}

func (s *logSink) WithValues(kv ...any) klog.LogSink { return &logSink{s.log.WithFields(toFields(kv))} }

func (s *logSink) WithName(name string) klog.LogSink { return &logSink{s.log.WithField("from", name)} }

func toFields(kv []any) logrus.Fields {
	f := logrus.Fields{}
	for i := 0; i+1 < len(kv); i += 2 {
		f[fmt.Sprint(kv[i])] = kv[i+1]
	}
	return f
}
