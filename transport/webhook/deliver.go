package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room/coordinator"
	"roomd/transport/api"
)

const (
	maxEntries = 100       // per message
	maxBytes   = 256 << 10 // approximate size of a message; a larger entry is sent alone
	maxAnswer  = 64 << 10  // bytes read of an answer, so that its connection can be used again

	firstPause = 500 * time.Millisecond // before the second attempt
	maxPause   = time.Minute
)

type message struct {
	id      string
	body    []byte
	entries int    // number of entries
	next    string // the place after the last entry; empty if there is none
	since   int64  // time of the first entry, in ms since 1970
}

// newMessage returns a message with as many of the first entries as fit.
func newMessage(entries []coordinator.FeedEntry, now int64) *message {
	m := &message{since: now}
	var list bytes.Buffer
	var last time.Time
	for i := range entries {
		e := &entries[i]
		text := api.EncodeFeedEntry(e, now)
		if i > 0 && list.Len()+len(text) > maxBytes {
			break
		} else if i > 0 {
			list.WriteByte(',')
		}
		list.Write(text)
		if !e.Time.IsZero() {
			m.since, last = min(m.since, e.Time.UnixMilli()), e.Time
		}
		m.entries, m.next = i+1, e.Next
	}
	if last.IsZero() {
		last = time.UnixMilli(now)
	}
	sum := sha256.Sum256(list.Bytes())
	m.id = "msg_" + hex.EncodeToString(sum[:16])
	m.body = fmt.Appendf(nil, `{"type":"feed.entries","timestamp":%q,"data":{"entries":[%s]}}`,
		last.UTC().Format(time.RFC3339Nano), list.Bytes())
	return m
}

// newClient returns a client that follows no redirection, because the signature is for the receiver alone.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxAnswer
	transport.DisableCompression = true
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// deliver sends a message until the receiver acknowledges it or ctx ends.
func (w *webhook) deliver(ctx context.Context, m *message) error {
	w.since.Store(m.since)
	again := pause.Backoff{First: firstPause, Max: maxPause, Jitter: 0.5}
	for {
		err := w.send(ctx, m)
		if err == nil {
			w.sent.Add(1)
			w.entries.Add(uint64(m.entries))
			w.since.Store(0)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w.failures.Add(1)
		w.failed.Happened(err, "receiver", w.label)
		if err := again.Wait(ctx); err != nil {
			return err
		}
	}
}

func (w *webhook) send(ctx context.Context, m *message) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(m.body))
	if err != nil {
		return errors.New("the request cannot be made")
	}
	at := w.rooms.Now() / 1000 // the receiver checks this time, and a node's own clock may be wrong
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "roomd",
		"webhook-id": m.id, "webhook-timestamp": strconv.FormatInt(at, 10),
		"webhook-signature": w.secrets.sign(m.id, at, m.body),
	} {
		req.Header.Set(name, value)
	}
	res, err := w.client.Do(req)
	if of, is := errors.AsType[*url.Error](err); is {
		err = of.Err // the error without the URL
	}
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer)
	_ = res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("the receiver answers %d", res.StatusCode)
	}
	return nil
}
