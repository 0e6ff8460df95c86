package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"roomd/transport/protocol"
)

// Names of the server's events.
const (
	lobbyWhole   = "rooms"   // a list that replaces the earlier one
	lobbyChanges = "changes" // new state of some rooms, and ids of those that are gone
)

// Limits of a lobbyStream.
const (
	maxLobbyLine = 16 << 20         // bytes: ten times as much as 1,000 rooms with the longest ids and labels
	lobbySilence = 30 * time.Second // twice the longest silence of a server
)

// lobbyEvent is an event of the server about the lobby.
type lobbyEvent struct {
	name  string
	Rooms []LobbyRoom `json:"rooms"`
	Gone  []string    `json:"gone"`
	More  bool        `json:"more"` // the next event continues the list
}

// lobbyStream is the stream of server-sent events from one server.
type lobbyStream struct {
	cancel    context.CancelFunc
	transport *http.Transport
	body      io.ReadCloser
	lines     *bufio.Scanner
	silence   *time.Timer
}

// openLobby asks a server for its lobby. Errors are as for Dial.
func openLobby(ctx context.Context, cfg *Config, address string, query url.Values,
	opts Options) (_ *lobbyStream, err error) {
	u, err := parseURL(address, "")
	if err != nil {
		return nil, err
	}
	u = u.ResolveReference(&url.URL{Path: "api/rooms", RawQuery: query.Encode()}) // in place of ws
	u.Scheme = map[string]string{"ws": "http", "wss": "https"}[u.Scheme]
	header, err := opts.handshakeHeader(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &lobbyStream{cancel: cancel, transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg.TLS.Clone(), DisableCompression: true,
		DialContext: cfg.dialNet,
	}}
	defer func() {
		if err != nil {
			s.close()
			err = fmt.Errorf("client: lobby of %s://%s%s: %w", u.Scheme, u.Host, u.Path, err)
		}
	}()
	s.silence = time.AfterFunc(cfg.HandshakeTimeout, cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set("Accept", "text/event-stream, application/problem+json")
	resp, err := s.transport.RoundTrip(req) // unlike a client, it does not follow redirects, which could leak the token
	if err != nil {
		return nil, err
	}
	s.body = resp.Body
	if resp.StatusCode != http.StatusOK {
		return nil, problemOf(resp)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		return nil, fmt.Errorf("%w (its type: %q)", errNotRoomd, kind)
	}
	s.lines = bufio.NewScanner(resp.Body)
	s.lines.Buffer(nil, maxLobbyLine)
	s.silence.Reset(lobbySilence)
	return s, nil
}

// problemOf returns the error of a response that is a problem document (RFC 9457).
func problemOf(resp *http.Response) error {
	var problem struct{ Code, Detail string }
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	err := error(errNotRoomd)
	if json.Unmarshal(body, &problem, json.MatchCaseInsensitiveNames(true)) == nil && problem.Code != "" {
		err = protocol.NewError(problem.Code, "%s", problem.Detail)
	}
	return &statusError{resp.StatusCode, resp.Status, err}
}

// close ends the response and the connection.
func (s *lobbyStream) close() {
	s.silence.Stop()
	s.cancel()
	if s.body != nil {
		_ = s.body.Close()
	}
	s.transport.CloseIdleConnections()
}

// next waits for the next event about rooms. It fails when the response has ended, or the server is silent for
// too long.
func (s *lobbyStream) next() (e lobbyEvent, err error) {
	var data strings.Builder
	for s.lines.Scan() {
		s.silence.Reset(lobbySilence)
		switch name, value, _ := strings.Cut(s.lines.Text(), ":"); {
		case name == "event":
			e.name = strings.TrimPrefix(value, " ")
		case name == "data":
			data.WriteString(value)
		case s.lines.Text() != "" || data.Len() == 0: // a comment, or a field that this client does not know
		case e.name == lobbyWhole, e.name == lobbyChanges:
			err = json.Unmarshal([]byte(data.String()), &e)
			return e, err
		default: // an event of a newer server
			e = lobbyEvent{}
			data.Reset()
		}
	}
	if err = s.lines.Err(); err == nil {
		err = io.EOF
	}
	return e, err
}
