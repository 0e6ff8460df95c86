package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
	"roomd/transport/protocol"
)

// rawJSON is any JSON, unchanged.
type rawJSON = jsontext.Value

// readBody returns the body of a request, which has to be JSON of a bounded length.
func (q *request) readBody() ([]byte, error) {
	kind, parameters, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	charset := parameters["charset"]
	if err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") ||
		len(q.Header["Content-Type"]) != 1 {
		return nil, fail(codeType, "the body must be JSON: Content-Type must be application/json, not %.100q",
			q.Header.Get("Content-Type"))
	}
	for _, coding := range q.Header["Content-Encoding"] {
		if !strings.EqualFold(strings.Trim(coding, " \t"), "identity") {
			q.header.Set("Accept-Encoding", "identity")
			return nil, fail(codeType, "the body must be as it is, without Content-Encoding, not %.100q", coding)
		}
	}
	body, err := io.ReadAll(q.Body)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, fail(protocol.CodeTooLarge, "the body may have at most %d bytes", maxBody)
	}
	if err != nil {
		return nil, fail(protocol.CodeBadRequest, "the body could not be read")
	}
	return body, checkJSON(body)
}

// checkJSON returns an error unless a body is exactly one JSON value without repeated names.
func checkJSON(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	_, err := d.ReadValue()
	switch syntax := new(jsontext.SyntacticError); {
	case err == io.EOF:
		return fail(protocol.CodeBadRequest, "the body is empty: it must be JSON")
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return badField(protocol.Shorten(syntax.JSONPointer.LastToken()), "is there twice")
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

// decode reads a body into a *T: any JSON into a *rawJSON, otherwise an object into a struct. It refuses unknown
// names, names in other letter case, null, values that checkTags refuses, and the lack of a required field.
func decode(body []byte, into any) error {
	if raw, ok := into.(*rawJSON); ok {
		*raw = bytes.Trim(body, " \t\r\n")
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if d.PeekKind() != jsontext.KindBeginObject {
		return fail(protocol.CodeBadRequest, "the body must be one JSON object")
	}
	fields, seen := reflect.ValueOf(into).Elem(), make(map[string]bool)
	_, _ = d.ReadToken() // checkJSON has checked the whole body
	for d.PeekKind() != jsontext.KindEndObject {
		token, _ := d.ReadToken()
		name := token.String()
		value, _ := d.ReadValue()
		seen[name] = true
		if err := decodeField(fields, name, value.Clone()); err != nil {
			return err
		}
	}
	for field := range fields.Type().Fields() {
		if name, needed := bodyField(field); needed && !seen[name] {
			return badField(name, "is required: %s", expectation(field))
		}
	}
	return nil
}

// bodyField returns a field's name in bodies, "" if it is in none, and whether it is required.
func bodyField(f reflect.StructField) (name string, required bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" {
		return "", false
	}
	return name, options != "omitzero" && f.Tag.Get("required") != "false"
}

func decodeField(fields reflect.Value, name string, value rawJSON) error {
	problem := "is unknown"
	for field, into := range fields.Fields() {
		switch known, _ := bodyField(field); {
		case known == "":
		case known == name:
			return decodeValue(field, into, name, value)
		case strings.EqualFold(known, name):
			problem = "is unknown: names are in lower case, " + strconv.Quote(known)
		}
	}
	return badField(protocol.Shorten(name), "%s", problem)
}

func decodeValue(field reflect.StructField, into reflect.Value, name string, value rawJSON) error {
	switch raw, isRaw := into.Addr().Interface().(*rawJSON); {
	case isRaw:
		*raw = value
		return nil
	case field.Type.Kind() == reflect.Struct && value.Kind() == jsontext.KindBeginObject:
		err := decode(value, into.Addr().Interface())
		if inside, is := errors.AsType[*room.InvalidError](err); is {
			inside.Field = name + "." + inside.Field
		}
		return err
	case value.Kind() == jsontext.KindNull, string(value) == "-0",
		json.Unmarshal(value, into.Addr().Interface()) != nil:
		return badField(name, "must be %s", expectation(field))
	}
	return checkTags(field, into, name)
}

// checkTags checks a value by the field's tags enum, minLength, minimum and maximum. The rules check the rest later.
func checkTags(field reflect.StructField, value reflect.Value, name string) error {
	if choices := field.Tag.Get("enum"); choices != "" &&
		(value.Kind() == reflect.String || value.Kind() == reflect.Bool) {
		for choice := range strings.SplitSeq(choices, ",") {
			if fmt.Sprint(value) == choice {
				return nil
			}
		}
		return badField(name, "must be %s", expectation(field))
	}
	if value.Kind() == reflect.String && value.Len() == 0 && field.Tag.Get("minLength") != "" {
		return badField(name, "must not be empty")
	}
	least, limited := field.Tag.Lookup("minimum")
	if !limited || !value.CanInt() {
		return nil
	}
	from, _ := strconv.Atoi(least)
	to, _ := strconv.Atoi(field.Tag.Get("maximum"))
	if n := int(value.Int()); n < from || n > to {
		return badField(name, "must be from %d to %d, not %d", from, to, n)
	}
	return nil
}

// expectation describes the valid values of a field for people.
func expectation(f reflect.StructField) string {
	if choices := f.Tag.Get("enum"); choices != "" {
		return strings.ReplaceAll(choices, ",", " or ")
	}
	if f.Type == reflect.TypeFor[room.Labels]() {
		return "an object whose values are strings"
	}
	switch f.Type.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.String:
		name, _ := bodyField(f)
		for _, s := range room.SettingFields {
			if s.Name == name && s.Values != nil {
				return strings.Join(s.Values, " or ")
			}
		}
	case reflect.Bool:
		return "true or false"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "a list of strings"
	}
	return "a string"
}

// decodeQuery reads the parameters of a query into a *T whose fields are strings, whole numbers with a minimum and a
// maximum, and lists. It refuses unknown parameters, repeated ones that are no lists, and values outside their tags.
func decodeQuery(raw string, into any) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return badField("query", "cannot be read: %v", err)
	}
	var names []string
	for field, value := range reflect.ValueOf(into).Elem().Fields() {
		name := field.Tag.Get("query")
		names = append(names, name)
		given, text := values[name], strings.Join(values[name], "")
		delete(values, name)
		switch {
		case value.Kind() == reflect.Slice:
			value.Set(reflect.ValueOf(given))
			continue
		case len(given) > 1:
			return badField(name, "is there twice")
		case value.Kind() == reflect.String:
			value.SetString(text)
			if text != "" && checkTags(field, value, name) != nil {
				return badField(name, "must be %s, not %q", expectation(field), protocol.Shorten(text))
			}
			continue
		case len(given) == 0:
			text = field.Tag.Get("default")
		}
		n, err := strconv.ParseUint(text, 10, 31)
		if value.SetInt(int64(n)); err != nil || checkTags(field, value, name) != nil {
			return badField(name, "must be a whole number from %s to %s, not %q", field.Tag.Get("minimum"),
				field.Tag.Get("maximum"), protocol.Shorten(text))
		}
	}
	for name := range values {
		if len(names) == 0 {
			return badField(protocol.Shorten(name), "is no parameter of this, which has none")
		}
		return badField(protocol.Shorten(name), "is no parameter of this; there are: %s", strings.Join(names, ", "))
	}
	return nil
}
