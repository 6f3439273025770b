// SPDX-License-Identifier: Apache-2.0

//go:build interop

package kubernetes

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// schemas are those of a release of Kubernetes.
type schemas struct {
	compiler *jsonschema.Compiler
}

// files are the documents of OpenAPI in which the kinds of a version are.
var files = map[string]string{"v1": "api__v1", "apps/v1": "apis__apps__v1"}

// kubernetes reads the schemas of the module k8s.io/kubernetes, of which WAYMARK_KUBERNETES is the directory. An API
// server publishes enumerations too, but the module's documents leave them out, so they come from the code that the
// server makes its schemas from. A field that the schema does not have is refused, as with kubectl --validate=strict.
func kubernetes(t *testing.T) schemas {
	t.Helper()
	root := os.Getenv("WAYMARK_KUBERNETES")
	if root == "" {
		t.Skip("WAYMARK_KUBERNETES names no sources of Kubernetes; make interop fetches them")
	}
	enumerations := enumerations(t, filepath.Join(root, "pkg/generated/openapi/zz_generated.openapi.go"))
	s := schemas{jsonschema.NewCompiler()}
	for version, name := range files {
		text, err := os.ReadFile(filepath.Join(root, "api/openapi-spec/v3", name+"_openapi.json"))
		if err != nil {
			t.Fatal(err)
		}
		var document map[string]any
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatal(err)
		}
		for name, schema := range document["components"].(map[string]any)["schemas"].(map[string]any) {
			schema := schema.(map[string]any)
			properties, _ := schema["properties"].(map[string]any)
			if properties != nil {
				schema["additionalProperties"] = false
			}
			for property, values := range enumerations[name] {
				of := properties[property].(map[string]any)
				if items, ok := of["items"].(map[string]any); ok {
					of = items
				}
				of["enum"] = values
			}
		}
		if err := s.compiler.AddResource(address(version), document); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func address(version string) string { return "kubernetes://" + version }

// enumerations finds, by schema and property, the values that a property may have.
func enumerations(t *testing.T, file string) map[string]map[string][]any {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string][]any{}
	for _, declared := range source.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name, ok := strings.CutPrefix(function.Name.Name, "schema_k8sio_api_")
		if !ok {
			continue
		}
		name = "io.k8s.api." + strings.ReplaceAll(name, "_", ".")
		property := ""
		ast.Inspect(function, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			switch key := pair.Key.(type) {
			case *ast.BasicLit:
				if values, ok := pair.Value.(*ast.CompositeLit); ok && values.Type == nil { // else it is an extension's
					property, _ = strconv.Unquote(key.Value)
				}
			case *ast.Ident:
				if values, ok := pair.Value.(*ast.CompositeLit); ok && key.Name == "Enum" {
					if found[name] == nil {
						found[name] = map[string][]any{}
					}
					for _, value := range values.Elts {
						text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
						if err != nil {
							t.Fatal(err)
						}
						found[name][property] = append(found[name][property], text)
					}
				}
			}
			return true
		})
	}
	return found
}

// validate compares each document of a file with the schema of its kind.
func (s schemas) validate(text string) error {
	documents := 0
	for document := range strings.SplitSeq(text, "\n---\n") {
		var value map[string]any
		if err := yaml.Unmarshal([]byte(document), &value); err != nil {
			return err
		}
		if value == nil { // a comment
			continue
		}
		version, _ := value["apiVersion"].(string)
		group := version
		if version == "v1" {
			group = "core/v1"
		}
		schema, err := s.compiler.Compile(fmt.Sprintf("%s#/components/schemas/io.k8s.api.%s.%v",
			address(version), strings.ReplaceAll(group, "/", "."), value["kind"]))
		if err != nil {
			return err
		}
		if err := schema.Validate(value); err != nil {
			return fmt.Errorf("%v: %w", value["kind"], err)
		}
		documents++
	}
	if documents == 0 {
		return fmt.Errorf("no document in %q", text)
	}
	return nil
}

// What an API server would refuse is refused, each for its reason.
func TestSchemasRefuse(t *testing.T) {
	s := kubernetes(t)
	manifest, err := os.ReadFile("waymark.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ from, to, reason string }{
		{"- name: agent\n          # One", "- # One", "missing property 'name'"},
		{"  selector:\n    matchLabels: {app.kubernetes.io/name: waymark}\n", "", "missing property 'selector'"},
		{"hostPath: {path: /sys/fs/bpf, ", "hostPath: {", "missing property 'path'"},
		{"type: RollingUpdate", "type: Sometimes", "value must be one of 'OnDelete', 'RollingUpdate'"},
		{"{operator: Exists}", "{operator: Exist}", "value must be one of 'Equal', 'Exists'"},
		{"{type: RuntimeDefault}", "{type: Default}", "value must be one of 'Localhost', 'RuntimeDefault', 'Unconfined'"},
		{"hostNetwork: true", "hostNetwork: \"true\"", "got string, want boolean"},
		{"hostNetwork: true", "hostNetwrok: true", "additional properties 'hostNetwrok' not allowed"},
		{"kind: DaemonSet", "kind: DemonSet", "io.k8s.api.apps.v1.DemonSet"},
	} {
		text := strings.Replace(string(manifest), tt.from, tt.to, 1)
		if text == string(manifest) {
			t.Fatalf("the manifest has no %q", tt.from)
		}
		if err := s.validate(text); err == nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%q instead of %q: %v; want: %s", tt.to, tt.from, err, tt.reason)
		}
	}
}
