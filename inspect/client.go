// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"

	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
)

// Client asks an agent by its admin socket.
type Client struct {
	path string
	http http.Client
}

// NewClient returns a client for the agent at path.
func NewClient(path string) *Client {
	var d net.Dialer
	return &Client{path: path, http: http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}},
	}}
}

// Close gives up the connections to the agent.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Translations returns every claimed key as it stands, sorted by key.
func (c *Client) Translations(ctx context.Context) ([]*model.TranslationState, error) {
	var out []*model.TranslationState
	return out, c.do(ctx, http.MethodGet, pathTranslations, &out)
}

// Status returns how the agent stands.
func (c *Client) Status(ctx context.Context) (services.Status, error) {
	var out services.Status
	return out, c.do(ctx, http.MethodGet, pathStatus, &out)
}

// Resync has the agent dump VPP and mend what differs.
func (c *Client) Resync(ctx context.Context) (services.Status, error) {
	var out services.Status
	return out, c.do(ctx, http.MethodPost, pathResync, &out)
}

func (c *Client) do(ctx context.Context, method, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.explain(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		return errors.Join(fmt.Errorf("the agent says: %s", strings.TrimSpace(string(text))), err)
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("the agent's answer cannot be read (another version?): %w", err)
	}
	return nil
}

// explain says what to do about a socket that is not answered.
func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no agent at %s: is it running (calico-vpp-services run), and with this --admin-socket?", c.path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nobody answers on %s: the agent that made it is gone; start it again", c.path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: permission denied; ask as the user that runs the agent", c.path)
	}
	return fmt.Errorf("admin socket %s: %w", c.path, err)
}
