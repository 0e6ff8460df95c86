package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"roomd/lockmgr/redisconn/redisurl"
)

// logSettings logs the version and settings: at level info those that are not defaults, at level debug all.
func logSettings(log *slog.Logger, cfg config, redis string) error {
	all, err := settings(&cli{Serve: cfg}, redis)
	if err != nil {
		return err
	}
	log.Info("this is "+version(), "settings", inForce(all, false))
	if log.Enabled(context.Background(), slog.LevelDebug) {
		log.Debug("all settings", "settings", inForce(all, true))
	}
	return nil
}

type setting struct {
	*kong.Flag
	shown     string // safe for the log
	isDefault bool
	origin    string // "" for the default
}

// String returns the setting in a shell's syntax.
func (s setting) String() string {
	if strings.ContainsAny(s.shown, " '\"$&|;<>()*?[]") || s.shown == "" {
		return fmt.Sprintf("--%s='%s'", s.Name, s.shown)
	}
	return "--" + s.Name + "=" + s.shown
}

// settings returns the flags of c.Serve. redis describes --redis without its password. Flags with the tag secret have
// their values hidden.
func settings(c *cli, redis string) ([]setting, error) {
	given, err := flagsOf(c, nil)
	if err != nil {
		return nil, err
	}
	defaults, err := flagsOf(&cli{}, func(parser *kong.Kong) error { _, err := parser.Parse(nil); return err })
	if err != nil {
		return nil, err
	}
	var all []setting
	for i, flag := range given {
		value := flag.Target.Interface()
		s := setting{flag, shown(value), reflect.DeepEqual(value, defaults[i].Target.Interface()),
			c.Serve.file.origins[flag.Name]}
		switch {
		case s.isDefault:
		case flag.Name == "webhook":
			s.shown = c.Serve.webhookHosts()
		case flag.Tag.Has("secret"):
			s.shown = "(secret)"
		case flag.Name == "redis":
			s.shown = redis
		}
		all = append(all, s)
	}
	return all, nil
}

// flagsOf returns the flags of "roomd serve" with their values in c. parse may fill c; the environment is ignored.
func flagsOf(c *cli, parse func(*kong.Kong) error) ([]*kong.Flag, error) {
	parser, err := kong.New(c, kong.Name("roomd"))
	if err == nil && parse != nil {
		err = parse(parser)
	}
	if err != nil {
		return nil, err
	}
	serve := slices.IndexFunc(parser.Model.Children, func(n *kong.Node) bool { return n.Name == "serve" })
	return parser.Model.Children[serve].Flags, nil
}

// shown returns a value as on the command line.
func shown(value any) string {
	v := reflect.ValueOf(value)
	if text, is := value.(fmt.Stringer); is && v.Kind() != reflect.Pointer {
		return text.String()
	}
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return ""
	case v.Kind() == reflect.Pointer:
		return fmt.Sprint(v.Elem())
	case v.Kind() == reflect.Slice:
		var parts []string
		for i := range v.Len() {
			parts = append(parts, fmt.Sprint(v.Index(i)))
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(value)
}

// inForce returns settings in one line: all, or only those that are not defaults.
func inForce(settings []setting, all bool) string {
	var parts []string
	for _, s := range settings {
		if all || !s.isDefault {
			parts = append(parts, s.String())
		}
	}
	if len(parts) == 0 {
		return "all as by default"
	}
	return strings.Join(parts, " ")
}

// version returns roomd's version and revision, and Go's version.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return versionOf(info)
}

func release() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	return cmp.Or(info.Main.Version, "(devel)")
}

func versionOf(info *debug.BuildInfo) string {
	set := make(map[string]string)
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	revision := cmp.Or(set["vcs.revision"], "unknown")
	if set["vcs.modified"] == "true" {
		revision += " with changes"
	}
	if at := set["vcs.time"]; at != "" {
		revision += " of " + at
	}
	return fmt.Sprintf("roomd %s, revision %s, %s %s/%s", cmp.Or(info.Main.Version, "(devel)"), revision,
		info.GoVersion, runtime.GOOS, runtime.GOARCH)
}

// labels returns the flags with the tag label, which explain the metrics. No value is a secret: for Redis and the key
// it is only the kind.
func (c *config) labels() map[string]string {
	labels := map[string]string{"auth": "none"}
	if source := c.source(); source != nil {
		labels["auth"] = strings.TrimPrefix(source.name, "--auth-")
	}
	flags, _ := flagsOf(&cli{Serve: *c}, nil) // cannot fail: the same flags were parsed before
	for _, flag := range flags {
		if flag.Tag.Has("label") {
			labels[strings.ReplaceAll(flag.Name, "-", "_")] = shown(flag.Target.Interface())
		}
	}
	kind, _, isURL := strings.Cut(c.Redis, "://")
	if !isURL {
		kind = redisurl.Embedded
	}
	rules := c.rooms().Rules
	labels["redis"], labels["capacity"], labels["rules"] = kind, strconv.Itoa(rules.Seats()), rules.ID()
	return labels
}
