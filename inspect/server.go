// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	tomb "gopkg.in/tomb.v2"

	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
	"calico-vpp-services/unixsocket"
)

// Source is what can be asked; services.Server is one.
type Source interface {
	Translations() []*model.TranslationState
	Status() services.Status
	Resync(ctx context.Context) error
}

const (
	pathTranslations = "/v1/translations"
	pathStatus       = "/v1/status"
	pathResync       = "/v1/resync"

	// requestTimeout bounds a request, a resync included.
	requestTimeout = 30 * time.Second
)

// Server answers on the admin socket.
type Server struct {
	path     string
	listener *unixsocket.Listener
	log      *logrus.Entry
}

// NewServer makes the socket at path, with mode 0600. It fails when another
// agent is answering there: whoever has the socket is the agent of this VPP. Close
// must be called.
func NewServer(path string, log *logrus.Entry) (*Server, error) {
	l, err := unixsocket.Listen(path, "admin socket", "--admin-socket")
	if err != nil {
		return nil, err
	}
	return &Server{path: path, listener: l, log: log}, nil
}

// Close takes the socket away, if it is still ours.
func (s *Server) Close() error { return s.listener.Close() }

func handler(src Source, log *logrus.Entry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathTranslations, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, log, src.Translations())
	})
	mux.HandleFunc("GET "+pathStatus, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, log, src.Status())
	})
	mux.HandleFunc("POST "+pathResync, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		if err := src.Resync(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		reply(w, log, src.Status())
	})
	return mux
}

func reply(w http.ResponseWriter, log *logrus.Entry, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		log.WithError(err).Debug("admin socket: the asker went away")
	}
}

// ServeAdmin answers about src until t is dying.
func (s *Server) ServeAdmin(t *tomb.Tomb, src Source) error {
	server := http.Server{
		Handler:           handler(src, s.log),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      requestTimeout + 5*time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-t.Dying()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			s.log.WithError(err).Debug("admin socket: closing with requests under way")
			if err := server.Close(); err != nil {
				s.log.WithError(err).Debug("admin socket: close")
			}
		}
	}()
	if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin socket %s: %w", s.path, err)
	}
	<-stopped
	return nil
}
