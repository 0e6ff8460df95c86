# Completes roomd's commands, flags and values in fish.
complete -c roomd -f
{{- $names := ""}}{{range .}}{{$names = printf "%s %s" $names .Name}}{{end}}
{{- range .}}{{$c := .}}
complete -c roomd -n {{quote (printf "not __fish_seen_subcommand_from%s" $names)}} -a {{.Name}} -d {{quote .Help}}
{{- if .Words}}
complete -c roomd -n {{quote (printf "__fish_seen_subcommand_from %s" .Name)}} -a {{quote (join .Words " ")}}
{{- end}}
{{- range .Flags}}
complete -c roomd -n {{if $c.IsDefault}}{{quote (printf "__fish_seen_subcommand_from %s; or not __fish_seen_subcommand_from%s" $c.Name $names)}}{{else}}{{quote (printf "__fish_seen_subcommand_from %s" $c.Name)}}{{end}} -l {{.Name}} -d {{quote .Help}}{{if .Value}}{{if .IsFile}} -r{{else}} -x{{end}}{{if .Choices}} -a {{quote (join .Choices " ")}}{{end}}{{if .IsFile}} -F{{end}}{{end}}
{{- end}}
{{- end}}
