package main

import (
	"cmp"
	"embed"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

// completionCmd is "roomd completion".
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"One of ${enum}."`
}

// Help is shown by kong below the description.
func (*completionCmd) Help() string {
	return `It prints a script that completes the commands, flags and values of roomd:

  bash  source <(roomd completion bash)                                  in ~/.bashrc
  zsh   roomd completion zsh >"${fpath[1]}/_roomd"                       once, before compinit
  fish  roomd completion fish >~/.config/fish/completions/roomd.fish    once`
}

//go:embed completion
var completionScripts embed.FS

// completed is a command with its flags, as the scripts see it.
type completed struct {
	Name, Help string
	IsDefault  bool
	Words      []string // that may follow without a flag
	Flags      []completedFlag
}

type completedFlag struct {
	Name, Help string
	Value      string   // what it takes; empty for none
	Choices    []string // of the value
	IsFile     bool
}

// print writes the script for the shell. The flags are those of the model.
func (c *completionCmd) print(model *kong.Application, stdout io.Writer) error {
	script := template.New("").Funcs(template.FuncMap{"join": strings.Join, "quote": quoteShell, "escape": escapeZsh})
	script, err := script.ParseFS(completionScripts, "completion/*")
	if err != nil {
		return err
	}
	return script.ExecuteTemplate(stdout, "roomd."+c.Shell, completions(model))
}

func completions(model *kong.Application) (commands []completed) {
	for _, node := range model.Children {
		if node.Hidden {
			continue
		}
		command := completed{Name: node.Name, Help: firstSentence(node.Help), IsDefault: model.DefaultCmd == node}
		for _, argument := range node.Positional {
			command.Words = append(command.Words, argument.EnumSlice()...)
		}
		for _, flag := range slices.Concat(model.Flags, node.Flags) {
			if flag.Hidden {
				continue
			}
			f := completedFlag{Name: flag.Name, Help: firstSentence(flag.Help)}
			if !flag.IsBool() {
				f.Value = cmp.Or(flag.PlaceHolder, strings.ToUpper(flag.Name))
				f.IsFile = flag.PlaceHolder == "FILE"
				if flag.Enum != "" {
					f.Choices = flag.EnumSlice()
				}
			}
			command.Flags = append(command.Flags, f)
		}
		commands = append(commands, command)
	}
	return commands
}

func firstSentence(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	return strings.TrimSuffix(first, ".")
}

// quoteShell quotes text for bash, zsh and fish.
func quoteShell(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "’") + "'"
}

// escapeZsh escapes what ends a description in zsh's _arguments.
func escapeZsh(text string) string {
	return strings.NewReplacer(":", `\:`, "[", `\[`, "]", `\]`).Replace(text)
}
