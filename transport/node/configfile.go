package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"

	"roomd/transport/internal/reload"
)

type fileFlag struct {
	Config *string `placeholder:"FILE" help:"YAML file of settings. Its keys are the names of a node's flags without --, such as rate: 20/s; flags that may be repeated are lists. A flag counts before a variable, and that before the file."`

	file    *configFile       // the file read; nil before
	origins map[string]string // by flag, the origin of a value that is not the default
}

// configFile has the settings of a file. Its schema is the flags of a node: a key is the name of a flag, its value
// the text on the command line. So YAML never reads off or 3s as anything else.
type configFile struct {
	path    string // empty without a file
	entries map[string]*fileEntry
	anybody bool // every user of this machine can read the file
}

type fileEntry struct {
	line   int
	value  any  // a string, or a list of them as []any
	used   bool // neither a flag nor a variable overrides it
	secret bool // others must not read it
}

func (f *configFile) lineError(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", f.path, line, fmt.Errorf(format, args...))
}

// load is called by kong once the command line or the environment has named the file, if any. Then kong asks the file
// for values.
func (f *configFile) load(ctx *kong.Context) error {
	flags := ctx.Flags()
	i := slices.IndexFunc(flags, func(flag *kong.Flag) bool { return flag.Name == "config" })
	if i < 0 {
		return nil
	}
	path, _ := ctx.FlagValue(flags[i]).(*string)
	if path == nil {
		return nil
	}
	f.path = *path
	text, err := f.read()
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	known := make(map[string]*kong.Flag)
	for _, flag := range ctx.Model.DefaultCmd.Flags {
		known[flag.Name] = flag
	}
	delete(known, "config")
	if f.entries, err = f.parse(text, known); err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	ctx.AddResolver(kong.ResolverFunc(f.resolve))
	return nil
}

func (f *configFile) read() ([]byte, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, reload.NewFileError(f.path, err)
	}
	f.anybody = info.Mode().Perm()&0o004 != 0 && runtime.GOOS != "windows"
	return reload.Read(f.path)
}

// parse returns the values of the keys. It refuses aliases and tags, so nothing is expanded.
func (f *configFile) parse(text []byte, known map[string]*kong.Flag) (map[string]*fileEntry, error) {
	var document, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil, nil // only comments
	}
	if err == nil && !errors.Is(decoder.Decode(&more), io.EOF) {
		return nil, f.lineError(max(more.Line, 1), "another document begins here; settings are one")
	}
	if broken, ok := errors.AsType[*yaml.LoadError](err); ok {
		why := broken.Message
		if strings.Contains(why, "anchor") {
			why = "a value that begins with * needs quotes" // the rest may be a password
		}
		return nil, f.lineError(max(broken.Mark.Line, 1), "not YAML: %s", why)
	}
	if err != nil {
		return nil, f.lineError(1, "not YAML: %w", err)
	}
	root := document.Content[0]
	if isNothing(root) {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, f.lineError(root.Line, "settings are lines such as rate: 20/s")
	}
	entries := make(map[string]*fileEntry)
	for pair := range slices.Chunk(root.Content, 2) {
		key, value := pair[0], pair[1]
		name := key.Value
		flag := known[name]
		switch {
		case key.Kind != yaml.ScalarNode:
			return nil, f.lineError(key.Line, "a key is the name of a flag, such as rate")
		case flag == nil:
			return nil, f.lineError(key.Line, "%.50q is no setting of a node%s", name, meant(name, known))
		case entries[name] != nil:
			return nil, f.lineError(key.Line, "%s stands in line %d already", name, entries[name].line)
		}
		e := &fileEntry{line: key.Line}
		if e.value, err = textOf(value, flag.IsSlice()); err != nil {
			return nil, f.lineError(value.Line, "%s %w", name, err)
		}
		e.secret = flag.Tag.Has("secret") || name == "webhook" ||
			name == "redis" && withPassword.MatchString(value.Value)
		entries[name] = e
	}
	return entries, nil
}

// meant suggests the key that an unknown one may stand for.
func meant(name string, known map[string]*kong.Flag) string {
	name = strings.ReplaceAll(strings.TrimLeft(strings.ToLower(name), "-"), "_", "-")
	if known[name] == nil {
		return ""
	}
	return "; write " + name
}

func isNothing(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func textOf(n *yaml.Node, list bool) (any, error) {
	switch {
	case n.Kind == yaml.AliasNode, n.Anchor != "", n.Style&yaml.TaggedStyle != 0:
		return nil, errors.New("has an anchor, an alias or a tag: write the value itself")
	case list && n.Kind == yaml.SequenceNode:
		texts := make([]any, len(n.Content))
		for i, one := range n.Content {
			text, err := textOf(one, false)
			if err != nil {
				return nil, err
			}
			texts[i] = text
		}
		return texts, nil
	case list:
		return nil, errors.New("must be a list, such as [a, b], or lines that begin with -")
	case n.Kind != yaml.ScalarNode:
		return nil, errors.New("must be a single value")
	case isNothing(n):
		return nil, errors.New("has no value")
	}
	return n.Value, nil
}

// resolve is called by kong for flags that the command line lacks, and returns their values.
func (f *configFile) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	e := f.entries[flag.Name]
	if e == nil || variable(flag) != "" {
		return nil, nil
	}
	if list, isList := e.value.([]any); isList && len(list) == 0 {
		return nil, nil
	}
	e.used = true
	return e.value, nil
}

// variable returns the name of the environment variable that is set for a flag, or "".
func variable(flag *kong.Flag) string {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return name
		}
	}
	return ""
}

var flagName = regexp.MustCompile(`--([a-z][a-z-]*)`)

// locate adds the file's line to an error that names a flag whose value the file sets.
func (f *configFile) locate(err error) error {
	if err == nil || f == nil {
		return err
	}
	for _, name := range flagName.FindAllStringSubmatch(err.Error(), -1) {
		if e := f.entries[name[1]]; e != nil && e.used {
			return fmt.Errorf("%s:%d: %w", f.path, e.line, err)
		}
	}
	return err
}

// originsOf returns the origins of values that are not defaults, by flag.
func (f *configFile) originsOf(ctx *kong.Context) map[string]string {
	origins := make(map[string]string)
	for _, flag := range ctx.Flags() {
		if e := f.entries[flag.Name]; e != nil && e.used {
			origins[flag.Name] = fmt.Sprintf("%s:%d", f.path, e.line)
		} else if name := variable(flag); name != "" {
			origins[flag.Name] = name
		}
	}
	for _, step := range ctx.Path {
		if step.Flag != nil && !step.Resolved {
			origins[step.Flag.Name] = "the command line"
		}
	}
	return origins
}

// exposed returns the key of a secret, if every user of the machine can read the file; otherwise "".
func (f *configFile) exposed() string {
	if f == nil || !f.anybody {
		return ""
	}
	for name, e := range f.entries {
		if e.secret {
			return name
		}
	}
	return ""
}

func (f *configFile) warn(log *slog.Logger) {
	if key := f.exposed(); key != "" {
		log.Warn("every user of this machine can read the secret in the configuration file", "file", f.path, "key", key)
	}
}

var withPassword = regexp.MustCompile(`://[^/@]*:[^/@]*@|password=`)
