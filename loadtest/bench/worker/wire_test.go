package worker

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"roomd/loadtest/bench/echo"
)

func TestWire_Frames(t *testing.T) {
	server, err := echo.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	w, err := dial(t.Context(), server.URL(), "张三", 7)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 125, 126, 1 << 16, 1<<16 - 1} {
		want := bytes.Repeat([]byte("x"), n)
		if _, err := w.Write(appendFrame(nil, opText, want)); err != nil {
			t.Fatal(err)
		}
		if op, got, err := w.next(); op != opText || !bytes.Equal(got, want) || err != nil {
			t.Errorf("%d bytes: %d of opcode %x, %v", n, len(got), op, err)
		}
	}
	if _, err := w.Write(appendFrame(nil, opPing, []byte("ping"))); err != nil {
		t.Fatal(err)
	}
	if op, got, err := w.next(); op != opPong || string(got) != "ping" || err != nil {
		t.Errorf("opcode %x, %q, %v", op, got, err)
	}
}

// What a server answers is told from no answer.
func TestClient_Refusals(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch how := r.FormValue("user"); how {
		case "HTTP 503 unavailable":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":{"code":"unavailable","message":"","retry":true}}`))
		case "HTTP 404":
			http.NotFound(w, r)
		case "no answer":
			panic(http.ErrAbortHandler)
		default:
			ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
			if err != nil {
				return
			}
			defer ws.Close()
			_, _, _ = ws.ReadMessage()
			switch how {
			case "closed with 4009":
				_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(4009, ""), time.Now().Add(time.Second))
			case "busy":
				_ = ws.WriteMessage(websocket.TextMessage, []byte(`{"event":"changes"}`))
				_ = ws.WriteMessage(websocket.TextMessage, []byte(`{"id":1,"error":{"code":"busy","message":"","retry":true}}`))
			case "other reply":
				_ = ws.WriteMessage(websocket.TextMessage, []byte(`{"id":7,"room":"42"}`))
			}
			_, _, _ = ws.ReadMessage()
		}
	}))
	defer server.Close()
	url := strings.Replace(server.URL, "http", "ws", 1)
	for how, clear := range map[string]bool{
		"HTTP 503 unavailable": true, "HTTP 404": true, "closed with 4009": true, "busy": true, "other reply": false, "no answer": false,
	} {
		c, err := newClient(t.Context(), url, how, "42", 1)
		if err == nil {
			err = c.do(c.join)
			c.close()
		}
		var refusal *Refusal
		if err == nil || errors.As(err, &refusal) != clear || clear && refusal.Kind != how {
			t.Errorf("%s: %v", how, err)
		}
	}
}
