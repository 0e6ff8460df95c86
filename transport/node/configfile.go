package node

import (
	"errors"
	"fmt"
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
	Config configPath `placeholder:"FILE" help:"YAML file of settings. Its keys are the names of a node's flags without --, such as rate: 20/s; flags that may be repeated are lists. A flag counts before a variable, and that before the file."`
}

type configPath string

// BeforeResolve reads the file. Kong calls it if the command line or the environment names one.
func (configPath) BeforeResolve(ctx *kong.Context, trace *kong.Path, f *configFile) error {
	if f.path != "" { // kong calls this for the flag of each command if the variable is set
		return nil
	}
	f.path = string(ctx.FlagValue(trace.Flag).(configPath))
	text, err := reload.Read(f.path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	return f.parse(text, ctx.Model.DefaultCmd.Flags)
}

// configFile has the settings of a file. Its schema is the flags of a node: a key is the name of a flag, its value
// the text on the command line. So YAML never reads off or 3s as anything else.
type configFile struct {
	path    string // empty without a file
	entries map[string]fileEntry
	exposed string            // the key of a secret, if every user of this machine can read the file
	origins map[string]string // by flag, where a value comes from that is not the default
}

type fileEntry struct {
	at    string // file and line
	value any    // a string, or a list of them as []any; nil for an empty list, which is as good as no entry
}

func (f *configFile) at(line int) string { return fmt.Sprintf("%s:%d", f.path, max(line, 1)) }

func (f *configFile) parse(text []byte, flags []*kong.Flag) error {
	pairs, err := f.pairs(text)
	if err != nil {
		return err
	}
	info, err := os.Stat(f.path)
	anybody := err == nil && info.Mode().Perm()&0o004 != 0 && runtime.GOOS != "windows"
	for pair := range slices.Chunk(pairs, 2) {
		key, name, at := pair[0], pair[0].Value, f.at(pair[0].Line)
		i := slices.IndexFunc(flags, func(flag *kong.Flag) bool { return flag.Name == name })
		switch {
		case key.Kind != yaml.ScalarNode, i < 0, name == "config":
			return fmt.Errorf("%s: %.50q is no setting of a node: write a flag without --, such as max-rooms", at, name)
		case f.entries[name].at != "":
			return fmt.Errorf("%s: %s stands at %s already", at, name, f.entries[name].at)
		}
		value, err := textOf(pair[1], flags[i].IsSlice())
		if err != nil {
			return fmt.Errorf("%s: %s %w", f.at(pair[1].Line), name, err)
		}
		f.entries[name] = fileEntry{at, value}
		if anybody && value != nil &&
			(flags[i].Tag.Has("secret") || name == "webhook" || withPassword.MatchString(pair[1].Value)) {
			f.exposed = name
		}
	}
	return nil
}

var withPassword = regexp.MustCompile(`://[^/@]*:[^/@]*@|password=`)

// pairs returns the keys and values of a YAML text, alternating.
func (f *configFile) pairs(text []byte) ([]*yaml.Node, error) {
	var documents []yaml.Node
	err := yaml.Load(text, &documents, yaml.WithAllDocuments())
	if broken, is := errors.AsType[*yaml.LoadError](err); is {
		why := broken.Message
		if strings.Contains(why, "anchor") {
			why = "a value that begins with * needs quotes" // the rest may be a password
		}
		return nil, fmt.Errorf("%s: not YAML: %s", f.at(broken.Mark.Line), why)
	}
	if err != nil || len(documents) == 0 { // only comments
		return nil, err
	}
	root := documents[0].Content[0]
	if len(documents) > 1 || root.Kind != yaml.MappingNode && root.ShortTag() != "!!null" {
		return nil, fmt.Errorf("%s: settings are lines such as rate: 20/s, in one document",
			f.at(documents[len(documents)-1].Line))
	}
	return root.Content, nil
}

// textOf returns the value of a fileEntry: a list if the flag is one (list), nil if it is empty; otherwise a text. It
// refuses other values, and aliases and tags, which YAML would expand.
func textOf(n *yaml.Node, list bool) (text any, err error) {
	switch {
	case n.Kind == yaml.AliasNode, n.Anchor != "", n.Style&yaml.TaggedStyle != 0:
		return nil, errors.New("has an anchor, an alias or a tag: write the value itself")
	case list && n.Kind != yaml.SequenceNode:
		return nil, errors.New("must be a list, such as [a, b], or lines that begin with -")
	case !list && (n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null"):
		return nil, errors.New("must have a single value")
	case !list:
		return n.Value, nil
	case len(n.Content) == 0:
		return nil, nil
	}
	var texts []any
	for i := 0; i < len(n.Content) && err == nil; i++ {
		text, err = textOf(n.Content[i], false)
		texts = append(texts, text)
	}
	return texts, err
}

// resolve returns the file's value for a flag. Kong calls it unless the command line or a variable sets the flag.
func (f *configFile) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			f.origins[flag.Name] = name
			return nil, nil
		}
	}
	e := f.entries[flag.Name]
	if e.value != nil {
		f.origins[flag.Name] = e.at
	}
	return e.value, nil
}

var flagName = regexp.MustCompile(`--([a-z][a-z-]*)`)

// locate adds the file's line to an error that names a flag whose value the file sets.
func (f *configFile) locate(err error) error {
	for _, name := range flagName.FindAllStringSubmatch(fmt.Sprint(err), -1) {
		if e := f.entries[name[1]]; e.value != nil && f.origins[name[1]] == e.at {
			return fmt.Errorf("%s: %w", e.at, err)
		}
	}
	return err
}
