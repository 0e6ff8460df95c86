package size

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// WriteText writes a plan for people.
func (l Load) WriteText(w io.Writer, p *Plan) error {
	var t strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&t, "%-13s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("load", "%s at %s of %s, %s; %s, %s", many(float64(l.Players), "player"), many(p.Rooms, "room"), count(float64(l.PerRoom)), many(p.Connections, "connection"), rate(p.Actions, "action"), rate(p.Events, "event"))
	n := p.Nodes
	line("nodes", "%s of %s and %s; decided by %s", count(n.Count), many(float64(l.Cores), "core"), size(float64(l.Memory)), n.DecidedBy)
	line("  processor", "%s: %s at %.0f %%", many(n.ByProcessor, "node"), cores(n.CPU), 100*l.Utilization)
	line("  memory", "%s: %s a node at %s, with %s of the kernel", many(n.ByMemory, "node"), size(n.Memory+n.Kernel), count(n.Count), size(n.Kernel))
	line("  connections", "%s: %s a node at %s, of %s", many(n.ByConnections, "node"), count(n.Connections), count(n.Count), count(float64(l.MaxConnections)))
	line("  open files", "%s a node (ulimit -n)", count(n.Files))
	line("  of a room", "members on %.1f nodes", n.Holding)
	r := p.Redis
	line("Redis", "%s with %s each; decided by %s", many(r.Masters, "master"), size(float64(l.RedisMemory)), r.DecidedBy)
	line("  processor", "%s: %s, one each at %.0f %%; an action %.0f µs, %.1f %% contended", many(r.ByProcessor, "master"), cores(r.CPU), 100*l.Utilization, r.PerCommit, 100*r.Contended)
	line("  memory", "%s: %s", many(r.ByMemory, "master"), size(r.Memory))
	line("network", "%s to clients, %s from them; %s to Redis, %s from it", speed(p.ToClients), speed(p.FromClients), speed(p.ToRedis), speed(p.FromRedis))
	for _, warning := range p.Warnings {
		line("warning", "%s", warning)
	}
	t.WriteString("All of this is computed, from costs that were measured; --constants has them, --check compares with runs.\n")
	_, err := io.WriteString(w, t.String())
	return err
}

// count returns a number with commas; from 1e15 on in another form.
func count(n float64) string {
	if n >= 1e15 {
		return fmt.Sprintf("%.3g", n)
	}
	text := strconv.FormatInt(int64(math.Round(n)), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func many(n float64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(n) + " " + what + "s"
}

func rate(n float64, what string) string {
	if n > 0 && n < 10 {
		return fmt.Sprintf("%.2g %ss/s", n, what)
	}
	return count(n) + " " + what + "s/s"
}

func cores(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.2f cores", n)
	}
	return count(n) + " cores"
}

// size returns bytes with a unit of powers of two, as memory has them.
func size(b float64) string { return scaled(b, 1024, "B", "KiB", "MiB", "GiB", "TiB", "PiB") }

// speed returns bytes a second with a unit of powers of ten, as networks have them.
func speed(b float64) string { return scaled(b, 1000, "B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s") }

func scaled(v, step float64, units ...string) string {
	i := 0
	for v >= step && i < len(units)-1 {
		v, i = v/step, i+1
	}
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3g %s", v, units[i])
	case v >= 100 || i == 0 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f %s", v, units[i])
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
