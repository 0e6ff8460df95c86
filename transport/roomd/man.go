package roomd

import (
	"bytes"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// writeManual writes the manual page of a program: all that its help says, in the language of man.
func writeManual(w io.Writer, model *kong.Application) error {
	m := new(manPage)
	m.macro("TH", strings.ToUpper(model.Name), "1", "", version(), "")
	summary, description, _ := strings.Cut(model.Help, "\n")
	m.macro("SH", "NAME")
	m.line(model.Name + " - " + strings.TrimSuffix(summary, "."))
	m.macro("SH", "SYNOPSIS")
	for _, command := range model.Children {
		m.macro("B", command.FullPath())
		m.line("[flags]")
		m.macro("br")
	}
	m.macro("SH", "DESCRIPTION")
	m.text(description)
	m.macro("SH", "FLAGS OF A NODE")
	m.flags(model.DefaultCmd.Flags)
	m.macro("SH", "COMMANDS")
	for _, command := range model.Children {
		m.macro("SS", command.Name)
		m.text(command.Help)
		m.text(command.Detail)
		if command != model.DefaultCmd {
			m.flags(ownFlags(command, model.DefaultCmd))
		}
	}
	m.macro("SH", "SEE ALSO")
	m.line("OPERATING.md, which comes with the program")
	_, err := w.Write(m.Bytes())
	return err
}

// ownFlags returns the flags of a command that do not mean what those of a node do.
func ownFlags(command, node *kong.Node) (own []*kong.Flag) {
	known := make(map[string]string)
	for _, flag := range node.Flags {
		known[flag.Name] = flag.Help
	}
	for _, flag := range command.Flags {
		if known[flag.Name] != flag.Help {
			own = append(own, flag)
		}
	}
	return own
}

// manPage is a manual page in roff.
type manPage struct{ bytes.Buffer }

var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// line writes a line of text, whatever stands in it.
func (m *manPage) line(text string) {
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		m.WriteString(`\&`)
	}
	m.WriteString(roff.Replace(text) + "\n")
}

func (m *manPage) macro(name string, args ...string) {
	m.WriteString("." + name)
	for _, arg := range args {
		m.WriteString(` "` + strings.ReplaceAll(roff.Replace(arg), `"`, `\(dq`) + `"`)
	}
	m.WriteString("\n")
}

// text writes paragraphs. Lines that begin with two spaces stay as they are.
func (m *manPage) text(text string) {
	shown := false
	for line := range strings.SplitSeq(text, "\n") {
		if show := strings.HasPrefix(line, "  "); show != shown {
			m.macro(map[bool]string{true: "EX", false: "EE"}[show])
			shown = show
		}
		if line == "" {
			m.macro("PP")
		} else {
			m.line(line)
		}
	}
	if shown {
		m.macro("EE")
	}
}

// flags writes the flags, by their groups.
func (m *manPage) flags(flags []*kong.Flag) {
	group := ""
	for _, flag := range flags {
		if flag.Hidden {
			continue
		}
		if flag.Group != nil && flag.Group.Title != group {
			group = flag.Group.Title
			m.macro("SS", group)
		}
		m.macro("TP")
		m.macro("B", flag.Summary())
		m.line(helpOf(flag.Value))
	}
}

// helpOf returns what help says of a flag: with its variable, and whether it is live.
func helpOf(value *kong.Value) string {
	help := kong.DefaultHelpValueFormatter(value)
	if value.Tag.Has("live") {
		help = strings.TrimSuffix(help, ").") + ", live)."
	}
	return help
}
