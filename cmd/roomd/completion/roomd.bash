# Completes roomd's commands, flags and values in bash.
_roomd() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command="" words="" i
  if [[ $cur == "=" ]]; then
    cur=""
  elif [[ $prev == "=" ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      {{range $i, $c := .}}{{if $i}}|{{end}}{{.Name}}{{end}}) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  COMPREPLY=()
  case $command$prev in
{{- range .}}{{$c := .}}{{range .Flags}}{{if .Value}}
    {{$c.Name}}--{{.Name}}{{if $c.IsDefault}}|--{{.Name}}{{end}})
{{- if .Choices}} COMPREPLY=($(compgen -W {{quote (join .Choices " ")}} -- "$cur")){{end}}
{{- if .IsFile}} compopt -o filenames 2>/dev/null; local IFS=$'\n'; COMPREPLY=($(compgen -f -- "$cur")){{end}}
      return ;;
{{- end}}{{end}}{{end}}
  esac
  case $command in
{{- range .}}
    {{.Name}}{{if .IsDefault}}|""{{end}}) words={{quote (join .Words " ")}}
{{- range .Flags}}" --{{.Name}}"{{end}} ;;
{{- end}}
  esac
  if [[ -z $command ]]; then
    words+=" {{range $i, $c := .}}{{if $i}} {{end}}{{.Name}}{{end}}"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _roomd roomd
