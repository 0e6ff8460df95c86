package api

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"roomd/room"
	"roomd/transport/protocol"
)

// The library huma makes the description from the operations and the Go types of their queries, bodies and answers.
// Nothing else of huma is used: its decoder accepts repeated names and any letter case, it reports faults as a list
// with status 422, leaves 404 and 405 to the mux, and keeps the form of errors in a global variable.

// description is GET /api/openapi.yaml.
var description = operation{
	method: http.MethodGet, path: "/api/openapi.yaml", id: "description", summary: "This description.", open: true,
	answer: []byte{},
	handler: plain(func(q *request) (*answer, error) {
		return &answer{status: http.StatusOK, kind: "application/yaml", cache: "public, max-age=3600",
			body: q.api.described}, nil
	}),
}

const introduction = `The lobby is for everybody; authority over rooms is for admins. On the address of the game clients a token says
who the caller is, if the node has a key for tokens: GET needs any valid one, everything else and the journal one with the role
admin, and a token's rooms and watch decide which rooms it sees and changes. Without a key GET is free there, and
nothing else is allowed. On --admin-listen everybody who gets there has authority.

Bodies are read strictly: an unknown field, a field twice, a name in other letter case or anything behind the
object is refused, and so is an unknown query parameter. An error is a problem document (RFC 9457), and says that
nothing was written, except with the code unknown. If-Match counts for PUT and deal; any other request that changes
something is refused with it, and all of them with If-None-Match or If-Unmodified-Since.
`

var openAPI = sync.OnceValue(func() []byte {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	d := describer{registry, &huma.OpenAPI{
		OpenAPI:  "3.1.0",
		Info:     &huma.Info{Title: "roomd", Version: "1", Description: introduction},
		Servers:  []*huma.Server{{URL: "/"}},
		Security: []map[string][]string{{"token": {}}, {}},
		Tags: []*huma.Tag{{Name: "lobby"}, {Name: "authority"},
			{Name: "nodes", Description: "Only on --admin-listen. A token, where one is needed, has the role " +
				"admin and allows all rooms."}},
		Components: &huma.Components{Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer",
				BearerFormat: "JWT"}}},
	}}
	d.doc.Components.Responses = map[string]*huma.Response{"Problem": {Description: "It was refused; code says why.",
		Content: map[string]*huma.MediaType{"application/problem+json": {Schema: d.schema(reflect.TypeFor[problem]())}}}}
	for _, op := range append([]operation{description}, operations...) {
		d.add(&op)
	}
	d.refine()
	text, err := d.doc.YAML()
	if err != nil {
		panic(err) // our own types are valid
	}
	return text
})

type describer struct {
	registry huma.Registry
	doc      *huma.OpenAPI
}

func (d *describer) add(op *operation) {
	described := &huma.Operation{
		Method: op.method, Path: op.path, OperationID: op.id, Summary: op.summary, Description: op.description,
		Parameters: d.parameters(op), Responses: d.responses(op),
	}
	switch {
	case op.open:
		described.Security = []map[string][]string{{}}
	case op.operators:
		described.Tags = []string{"nodes"}
	case op.admin:
		described.Tags = []string{"authority"}
	default:
		described.Tags = []string{"lobby"}
	}
	if op.body != nil {
		described.RequestBody = &huma.RequestBody{Required: true,
			Content: map[string]*huma.MediaType{"application/json": {Schema: d.schema(op.body)}}}
	}
	d.doc.AddOperation(described)
}

// schema returns the schema of a type. A rawJSON may be any JSON.
func (d *describer) schema(t reflect.Type) *huma.Schema {
	if t == reflect.TypeFor[rawJSON]() {
		return &huma.Schema{Description: "Any JSON, but with no number that a double (IEEE 754) cannot hold, such " +
			"as 1e999 or 9007199254740993."}
	}
	return d.registry.Schema(t, true, "")
}

func (d *describer) parameters(op *operation) (all []*huma.Param) {
	for segment := range strings.SplitSeq(op.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			schema := map[string]*huma.Schema{
				"room":  {Type: "string", Pattern: "^[A-Za-z0-9._-]{1,64}$", Description: "Neither . nor ..."},
				"user":  {Type: "string", MinLength: new(1), MaxLength: new(64)},
				"timer": {Type: "string", Pattern: "^[A-Za-z0-9._-]{1,32}$", Description: "Neither . nor ..."},
				"node":  {Type: "string", MinLength: new(1)},
			}[name]
			all = append(all, &huma.Param{Name: name, In: "path", Required: true, Schema: schema})
		}
	}
	for field := range op.query.Fields() {
		schema := huma.SchemaFromField(d.registry, field, "")
		schema.Nullable = false
		all = append(all, &huma.Param{Name: field.Tag.Get("query"), In: "query",
			Required: field.Tag.Get("required") != "", Description: field.Tag.Get("doc"), Schema: schema})
	}
	if op.match {
		all = append(all, &huma.Param{Name: "If-Match", In: "header",
			Schema: &huma.Schema{Type: "string", Pattern: `^("([a-z0-9]+\.)?[0-9]+"|[0-9]+)$`},
			Description: "An ETag of the room, or only its version, in quotes or without. If that is not met, the " +
				"answer is 412 and nothing was written."})
	}
	if op.id == "readRoom" {
		all = append(all, &huma.Param{Name: "If-None-Match", In: "header", Schema: &huma.Schema{Type: "string"},
			Description: "The ETag of the room that the caller has."})
	}
	return all
}

func (d *describer) responses(op *operation) map[string]*huma.Response {
	refused := &huma.Response{Ref: "#/components/responses/Problem"}
	all := map[string]*huma.Response{"default": refused, "400": refused}
	for _, status := range op.refusals {
		all[strconv.Itoa(status)] = refused
	}
	for status, may := range map[string]bool{
		"401": !op.open, "403": op.admin || strings.Contains(op.path, "{room}"), "412": op.match, "413": op.body != nil,
		"415": op.body != nil,
	} {
		if may {
			all[status] = refused
		}
	}
	content := func(kind string, schema *huma.Schema) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{kind: {Schema: schema}}
	}
	done := &huma.Response{Description: "It was done."}
	all["200"] = done
	switch op.answer.(type) {
	case nil:
		delete(all, "200")
		all["202"] = done
	case []byte:
		done.Content = content("application/yaml", &huma.Schema{Type: "object", Required: []string{"openapi"}})
	default:
		done.Content = content("application/json", d.schema(reflect.TypeOf(op.answer)))
	}
	switch op.answer.(type) {
	case roomState, position, party:
		done.Headers = map[string]*huma.Param{"ETag": {Description: `The room's version, as "epoch.version".`,
			Required: true, Schema: &huma.Schema{Type: "string", Pattern: `^"[a-z0-9]+\.[0-9]+"$`}}}
	case lobby:
		done.Headers = map[string]*huma.Param{"Cache-Control": {Required: true, Schema: &huma.Schema{Type: "string"}}}
	}
	if op.id == "readRoom" {
		all["304"] = &huma.Response{Description: "The caller has this version.", Headers: done.Headers}
	}
	return all
}

// refine adds facts that no tag of a Go type has.
func (d *describer) refine() {
	all := d.registry.Map()
	for name, schema := range all {
		for property, s := range schema.Properties {
			s.Nullable = name == "Change" && property == "in" // else an absent value is left out
			if s.ContentEncoding == "base64" {
				*s = huma.Schema{Description: s.Description} // any JSON
			}
			switch property {
			case "hands":
				s.AdditionalProperties = d.schema(reflect.TypeFor[rawJSON]())
			case "labels":
				*s = huma.Schema{Type: "object", Description: s.Description, MaxProperties: new(room.MaxLabels),
					AdditionalProperties: &huma.Schema{Type: "string", Pattern: "^[A-Za-z0-9._-]{1,64}$"}}
			}
		}
	}
	for _, name := range []string{"RoomState", "Party"} { // huma skips embedded types with unexported names
		maps.Copy(all[name].Properties, all["Position"].Properties)
		all[name].Required = append(all[name].Required, all["Position"].Required...)
	}
	for _, name := range []string{"Users", "Move"} {
		all[name].Properties["users"].Items = &huma.Schema{Type: "string", MinLength: new(1), MaxLength: new(64)}
	}
	all["Settings"].Required = nil
	for _, f := range room.SettingFields {
		p := all["Settings"].Properties[f.Name]
		p.Description, p.Format = f.Doc, ""
		if f.Most > 0 {
			p.Minimum, p.Maximum = new(0.0), new(float64(f.Most))
		}
		if f.Values != nil {
			p.Type, p.Default = "string", f.Values[0]
			p.Enum = enum(f.Values)
		}
	}
	shown := slices.Sorted(maps.Keys(all["Settings"].Properties))
	shown = slices.DeleteFunc(shown, func(name string) bool { return name == "grace" }) // it has no default
	all["RoomState"].Properties["settings"] = &huma.Schema{AllOf: []*huma.Schema{
		all["RoomState"].Properties["settings"], {Type: "object", Required: shown}}}
	all["Message"].OneOf = []*huma.Schema{{Required: []string{"text"}}, {Required: []string{"data"}}}
	all["Change"].Properties["to"].OneOf = []*huma.Schema{{Type: "array", Items: &huma.Schema{Type: "string"}},
		{Type: "string"}}
	all["Node"].Required = []string{"node", "address", "settings", "self"}
	all["Node"].Description = "All but node, address, settings and self is absent where the node says nothing of " +
		"itself."
	all["Node"].Properties["checks"].Description = "What the node has found in the rooms of its clients. copies: " +
		"Redis has what the node knows. seats: no seat is taken twice. capacity: no room has more members than " +
		"seats. versions: they have no gaps, and do not go back."
	all["Problem"].Properties["code"].Enum = enum(slices.Sorted(maps.Keys(kinds)))
	all["Change"].Properties["type"].Enum = enum(protocol.Changes())
	all["Change"].Properties["reason"].Enum = enum(protocol.Reasons())
}

func enum(values []string) (all []any) {
	for _, value := range values {
		all = append(all, value)
	}
	return all
}
