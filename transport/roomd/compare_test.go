package roomd

import (
	"log/slog"
	"testing"

	"roomd/lockmgr/redistest"
)

// The list without a lock is there only where nobody but this machine can come, and names are believed.
func TestUnguarded_WhereItIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want bool
	}{
		{[]string{"--listen", "127.0.0.1:0"}, true},
		{[]string{"--listen", "localhost:0"}, true},
		{[]string{"--listen", "[::1]:0", "--insecure"}, true},
		{[]string{"--listen", "0.0.0.0:0", "--insecure"}, false},
		{[]string{"--listen", ":0", "--insecure"}, false},
		{[]string{"--listen", "127.0.0.1:0", "--auth-secret", "0123456789abcdef0123456789abcdef"}, false},
	} {
		cfg, err := parse(t, tt.args...)
		redistest.OK(t, err)
		parts, err := nodeConfig(cfg, slog.New(slog.DiscardHandler))
		redistest.OK(t, err)
		end := cfg.compare(&parts)
		if got := parts.Unguarded != nil; got != tt.want {
			t.Errorf("%v: %v", tt.args, got)
		}
		end()
		parts.Redis.Close()
	}
}
