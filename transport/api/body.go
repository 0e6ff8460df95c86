package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"roomd/transport/protocol"
)

// field is one that a body may have.
type field struct {
	name     string
	must     string // what its value is, for people: "a string"
	into     any    // a pointer
	required bool
	given    func() error // checks the value where the field is there; nil for any
}

// readBody returns the body of a request, which has to be JSON of a bounded length.
func (q *request) readBody() ([]byte, error) {
	kind, parameters, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	charset := parameters["charset"]
	if err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") || len(q.Header["Content-Type"]) != 1 {
		return nil, fail(codeType, "the body must be JSON: Content-Type must be application/json, not %.100q", q.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(q.Body)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, fail(protocol.CodeTooLarge, "the body may have at most %d bytes", q.api.opts.MaxBody)
	}
	if err != nil {
		return nil, fail(protocol.CodeBadRequest, "the body could not be read")
	}
	return body, nil
}

// readValue reads a body that may be any JSON, and returns it as it is.
func (q *request) readValue() (jsontext.Value, error) {
	body, err := q.readBody()
	if err != nil {
		return nil, err
	}
	if err := oneValue(body); err != nil {
		return nil, err
	}
	return jsontext.Value(bytes.Trim(body, " \t\r\n")), nil
}

// readFields reads a body that is one object with some of these fields.
func (q *request) readFields(fields ...field) error {
	body, err := q.readBody()
	if err != nil {
		return err
	}
	if err := oneValue(body); err != nil {
		return err
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if kind := d.PeekKind(); kind != jsontext.KindBeginObject {
		return fail(protocol.CodeBadRequest, "the body must be one JSON object")
	}
	_, _ = d.ReadToken() // oneValue has read all of it
	seen := make(map[string]bool, len(fields))
	for d.PeekKind() != jsontext.KindEndObject {
		token, _ := d.ReadToken()
		name := token.String()
		value, _ := d.ReadValue()
		seen[name] = true
		if err := readField(fields, name, value); err != nil {
			return err
		}
	}
	for _, f := range fields {
		if f.required && !seen[f.name] {
			return badField(f.name, "is required: %s", f.must)
		}
	}
	return nil
}

// readField reads the value of the field with that name.
func readField(fields []field, name string, value jsontext.Value) error {
	for _, f := range fields {
		if f.name != name {
			continue
		}
		if raw, ok := f.into.(*jsontext.Value); ok {
			*raw = value.Clone()
		} else if value.Kind() == jsontext.KindNull || json.Unmarshal(value, f.into) != nil {
			return badField(name, "must be %s", f.must)
		}
		if f.given != nil {
			return f.given()
		}
		return nil
	}
	for _, f := range fields {
		if strings.EqualFold(f.name, name) {
			return badField(excerpt(name), "is unknown: names are in lower case, %q", f.name)
		}
	}
	return badField(excerpt(name), "is unknown")
}

// excerpt bounds a name that a caller has made up.
func excerpt(name string) string {
	const most = 32
	for i, n := 0, 0; i < len(name); n++ {
		if n == most {
			return name[:i] + "…"
		}
		_, size := utf8.DecodeRuneInString(name[i:])
		i += size
	}
	return name
}

// oneValue returns an error unless a body is exactly one JSON value, without a name twice.
func oneValue(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	_, err := d.ReadValue()
	switch syntax := new(jsontext.SyntacticError); {
	case err == io.EOF:
		return fail(protocol.CodeBadRequest, "the body is empty: it must be JSON")
	case errors.Is(err, jsontext.ErrDuplicateName):
		name := ""
		if errors.As(err, &syntax) {
			name = syntax.JSONPointer.LastToken()
		}
		return badField(excerpt(name), "is there twice")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fail(protocol.CodeBadRequest, "not valid JSON: the body ends too early")
	case errors.As(err, &syntax):
		return fail(protocol.CodeBadRequest, "not valid JSON from byte %d on", syntax.ByteOffset)
	case err != nil:
		return fail(protocol.CodeBadRequest, "not valid JSON")
	}
	end := d.InputOffset()
	if len(bytes.Trim(body[end:], " \t\r\n")) > 0 {
		return fail(protocol.CodeBadRequest, "the body must be one JSON value, but more follows after byte %d", end)
	}
	return nil
}
