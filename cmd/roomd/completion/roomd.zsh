#compdef roomd
# Completes roomd's commands, flags and values in zsh.
_roomd() {
  local command="" i
  for ((i = 2; i < CURRENT; i++)); do
    case $words[i] in
      ({{range $i, $c := .}}{{if $i}}|{{end}}{{.Name}}{{end}}) command=$words[i]; shift $((i-1)) words; ((CURRENT -= i-1)); break ;;
    esac
  done
  if [[ -z $command && $words[CURRENT] != -* && $words[CURRENT-1] != --* ]]; then
    local -a commands=(
{{- range .}}
      {{quote (printf "%s:%s" .Name .Help)}}
{{- end}}
    )
    _describe command commands
  fi
  case $command in
{{- range .}}
    ({{.Name}}{{if .IsDefault}}|""{{end}})
      _arguments \
{{- range .Flags}}
        {{if .Value}}{{quote (printf "--%s=[%s]:%s:%s" .Name (escape .Help) (escape .Value) (or (and .IsFile "_files") (and .Choices (printf "(%s)" (join .Choices " "))) " "))}}{{else}}{{quote (printf "--%s[%s]" .Name (escape .Help))}}{{end}} \
{{- end}}
        {{if .Words}}{{quote (printf "1:value:(%s)" (join .Words " "))}}{{else}}'*::: :'{{end}} ;;
{{- end}}
  esac
}
if [[ $funcstack[1] == _roomd ]]; then
  _roomd "$@"
else
  compdef _roomd roomd
fi
