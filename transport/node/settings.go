package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"roomd/lockmgr/redisconn/redisurl"
)

// logSettings logs the version and settings: at level info those that are not defaults, at level debug all. It warns
// of a secret that others can read.
func logSettings(log *slog.Logger, cfg config, redis string) {
	all := settings(cfg, redis)
	log.Info("this is "+version(), "settings", inForce(all, false))
	if log.Enabled(context.Background(), slog.LevelDebug) {
		log.Debug("all settings", "settings", inForce(all, true))
	}
	if key := cfg.file.exposed; key != "" {
		log.Warn("every user of this machine can read the secret in the configuration file", "file", cfg.file.path,
			"key", key)
	}
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

// settings returns the flags of cfg. redis describes --redis without its password. Flags with the tag secret have
// their values hidden.
func settings(cfg config, redis string) (all []setting) {
	var byDefault cli
	if err := kong.ApplyDefaults(&byDefault); err != nil {
		panic(err) // the defaults are constants
	}
	defaults := flagsOf(byDefault.Serve)
	for i, flag := range flagsOf(cfg) {
		value := flag.Target.Interface()
		s := setting{flag, shown(value), reflect.DeepEqual(value, defaults[i].Target.Interface()),
			cfg.file.origins[flag.Name]}
		switch {
		case s.isDefault:
		case flag.Tag.Has("secret"):
			s.shown = "(secret)"
		case flag.Name == "redis":
			s.shown = redis
		}
		all = append(all, s)
	}
	return all
}

// flagsOf returns the flags of a node with their values in cfg.
func flagsOf(cfg config) []*kong.Flag { return kong.Must(&cli{Serve: cfg}).Model.DefaultCmd.Flags }

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
func version() string { return versionOf(build()) }

func release() string { return cmp.Or(build().Main.Version, "(devel)") }

func build() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return &debug.BuildInfo{GoVersion: runtime.Version()}
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
	for _, flag := range flagsOf(*c) {
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
