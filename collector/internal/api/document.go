// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/waymark-net/waymark/internal/instant"
)

// documentPath is where the OpenAPI document is.
const documentPath = "/v1/openapi.json"

// object is an object in JSON. Keys are written in the order of the alphabet.
type object = map[string]any

// Document is the description of the API, by OpenAPI 3.1. It is made from the requests and from the types of
// their answers.
func Document() []byte {
	schemas := object{}
	paths := object{}
	for i := range routes {
		paths[routes[i].path] = object{"get": routes[i].operation(schemas)}
	}
	paths[liveRoute.path] = object{"get": liveRoute.operation(schemas)}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Waymark's collector", "version": "1",
			"description": "Questions about what waymark-collector keeps. Times are in RFC 3339, durations in nanoseconds. A question " +
				"is bounded in time, memory and items: an answer that is not whole has cut, and gaps are times whose files cannot be " +
				"read. Keys are added to, never changed.",
		},
		"servers": []any{object{"url": "http://[::1]:4780",
			"description": "The default address; only the collector's own machine is answered."}},
		"paths":      paths,
		"components": object{"schemas": schemas},
	})
	if err != nil {
		return nil // what it is made of can always be written
	}
	return b.Bytes()
}

// operation describes a request.
func (r *route) operation(schemas object) object {
	parameters := []any{}
	for _, p := range r.parameters {
		parameters = append(parameters, p.describe())
	}
	answers := object{}
	if r.stream {
		answers["200"] = r.describeStream(schemas)
	} else {
		parameters = append(parameters, formatParameter.describe())
		answer := response("The answer. In CSV, each item of its list is a row, or each item of the list within it.",
			schemaOf(reflect.TypeOf(r.answer), schemas))
		answer["content"].(object)["text/csv"] = object{"schema": object{"type": "string"}}
		answers["200"] = answer
	}
	for code, text := range map[string]string{
		"400": "A parameter is wrong.", "403": "The request did not come by the address of this machine.", "500": "The store could not be read.",
		"503": "Too many questions at a time.", "504": "The question took too long, or too much memory.",
	} {
		answers[code] = response(text, schemaOf(reflect.TypeFor[failure](), schemas))
	}
	return object{"operationId": r.name, "summary": r.summary, "parameters": parameters, "responses": answers}
}

// describeStream describes a stream of events: the data of one is one of some types, by its name.
func (r *route) describeStream(schemas object) object {
	var names []string
	var types []any
	for _, name := range slices.Sorted(maps.Keys(r.events)) {
		schema := schemaOf(reflect.TypeOf(r.events[name]), schemas)
		names, types = append(names, name), append(types, schema)
	}
	text := "Events of these names, each with an object in JSON as its data, in the same order: " + strings.Join(names, ", ") + "."
	return object{"description": text, "content": object{"text/event-stream": object{"schema": object{"oneOf": types}}}}
}

// formatParameter is one that all requests have.
var formatParameter = parameter{
	name:  formatName,
	form:  "word",
	words: []string{"json", "csv"},
	doc: "How the answer is written; without it, as the header Accept says. In CSV, the headers Waymark-Cut, with Waymark-Cut-Reason " +
		"and Waymark-Cut-Problem, and Waymark-Gaps say what the answer lacks. With compare, the first column of paths says to which " +
		"time a row belongs: now or before.",
}

func response(text string, schema object) object {
	return object{"description": text, "content": object{"application/json": object{"schema": schema}}}
}

func (p *parameter) describe() object {
	schema := object{"type": "string"}
	switch p.form {
	case "number":
		schema = object{"type": "integer", "minimum": 0}
	case "share":
		schema = object{"type": "number", "exclusiveMinimum": 0, "maximum": 1}
	case "boolean":
		schema = object{"type": "boolean"}
	case "time":
		schema["format"] = "date-time"
	case "word":
		schema["enum"] = p.words
	}
	if p.usual != "" {
		var value any = p.usual
		if p.form == "number" || p.form == "share" || p.form == "boolean" {
			value = json.RawMessage(p.usual)
		}
		schema["default"] = value
	}
	return object{"name": p.name, "in": "query", "required": false, "description": p.doc, "schema": schema}
}

var (
	instantType = reflect.TypeFor[instant.Time]()
	textType    = reflect.TypeFor[encoding.TextMarshaler]()
)

// schemaOf describes a type of an answer. Structures are named, and described once.
func schemaOf(t reflect.Type, schemas object) object {
	switch {
	case t == instantType:
		return object{"type": "string", "format": "date-time"}
	case t.Implements(textType):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), schemas)
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem(), schemas)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem(), schemas)}
	case reflect.Struct:
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if _, ok := schemas[name]; !ok {
			schemas[name] = object{} // of a type that contains itself
			schemas[name] = structure(t, schemas)
		}
		return object{"$ref": "#/components/schemas/" + name}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	default:
		return object{"type": "integer"}
	}
}

func structure(t reflect.Type, schemas object) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || key == "" || !f.IsExported() {
			continue
		}
		schema := schemaOf(f.Type, schemas)
		if text := textOf(t, f, key); text != "" {
			schema["description"] = text
		}
		properties[key] = schema
		if options == "" {
			required = append(required, key)
		}
	}
	return object{"type": "object", "properties": properties, "required": required}
}
