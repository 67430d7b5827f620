// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	tomb "gopkg.in/tomb.v2"

	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
)

type source struct {
	status services.Status
	rows   []*model.TranslationState
}

func (s *source) Status() services.Status                 { return s.status }
func (s *source) Translations() []*model.TranslationState { return s.rows }

func filled() *source {
	return &source{
		status: services.Status{Synced: true, Connected: true, Keys: 3, Pending: 1, Drift: 7, Foreign: 2, TakenOver: 1, LastUpdated: time.Unix(1000, 0)},
		rows: []*model.TranslationState{
			{State: model.StateProgrammed, Waiting: []model.ServiceID{"a/b"}}, {State: model.StateProgrammed}, {State: model.StateFailed},
		},
	}
}

func TestM1Values(t *testing.T) {
	want := `
# HELP calico_vpp_services_drift_total Keys found in VPP otherwise than they were left.
# TYPE calico_vpp_services_drift_total counter
calico_vpp_services_drift_total 7
# HELP calico_vpp_services_keys Claimed keys (protocol, address, port) by state.
# TYPE calico_vpp_services_keys gauge
calico_vpp_services_keys{state="failed"} 1
calico_vpp_services_keys{state="programmed"} 2
calico_vpp_services_keys{state="unserved"} 0
# HELP calico_vpp_services_contested_keys Claimed keys that more than one Service wants.
# TYPE calico_vpp_services_contested_keys gauge
calico_vpp_services_contested_keys 1
# HELP calico_vpp_services_ready 1 if VPP holds all that the objects ask for.
# TYPE calico_vpp_services_ready gauge
calico_vpp_services_ready 0
# HELP calico_vpp_services_vpp_up 1 if VPP is connected and has been dumped.
# TYPE calico_vpp_services_vpp_up gauge
calico_vpp_services_vpp_up 1
`
	names := []string{prefix + "drift_total", prefix + "keys", prefix + "contested_keys", prefix + "ready", prefix + "vpp_up"}
	if err := testutil.CollectAndCompare(NewCollector(filled(), nil), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// TestNames: names, types and help are as Prometheus wants them.
func TestNames(t *testing.T) {
	problems, err := testutil.CollectAndLint(NewCollector(filled(), nil))
	if err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestJ12Serve(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	s, err := NewServer("127.0.0.1:0", logrus.NewEntry(log))
	if err != nil {
		t.Fatal(err)
	}
	var tb tomb.Tomb
	tb.Go(func() error { return s.ServeMetrics(&tb, NewCollector(filled(), nil)) })
	resp, err := http.Get("http://" + s.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "calico_vpp_services_foreign_translations 2\n") {
		t.Errorf("%s, %v:\n%s", resp.Status, err, text)
	}
	tb.Kill(nil)
	if err := tb.Wait(); err != nil {
		t.Error(err)
	}
}
