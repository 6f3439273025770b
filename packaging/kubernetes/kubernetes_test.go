// SPDX-License-Identifier: Apache-2.0

//go:build interop

// Package kubernetes has what runs agents in a cluster. Its test takes minutes to compile, so it
// belongs to `make interop`.
package kubernetes

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/waymark-net/waymark/internal/config"
)

// objects decodes the documents of a file strictly: an unknown field, or a value of another type, is
// an error, as it is for an API server.
func objects(t *testing.T, text string) map[string]any {
	t.Helper()
	found := map[string]any{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var of metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &of); err != nil {
			t.Fatal(err)
		}
		var object any
		switch of.APIVersion + " " + of.Kind {
		case " ": // a comment
			continue
		case "v1 Namespace":
			object = &corev1.Namespace{}
		case "v1 ConfigMap":
			object = &corev1.ConfigMap{}
		case "apps/v1 DaemonSet":
			object = &appsv1.DaemonSet{}
		default:
			t.Fatalf("unexpected %+v", of)
		}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Errorf("%s: %v", of.Kind, err)
		}
		found[of.Kind] = object
	}
	return found
}

// check looks at what matters: least privilege, the mounts that outlive a pod, and a configuration
// that an agent accepts.
func check(t *testing.T, text string) {
	t.Helper()
	if os.Getenv("WAYMARK_KUBERNETES") != "" {
		if err := kubernetes(t).validate(text); err != nil {
			t.Error(err)
		}
	}
	found, set := objects(t, text), daemonSet(t, text)
	pod := set.Spec.Template.Spec
	if !pod.HostNetwork || pod.HostPID || pod.HostIPC || len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		t.Errorf("the pod is %+v", pod)
	}
	for key, value := range set.Spec.Selector.MatchLabels {
		if set.Spec.Template.Labels[key] != value {
			t.Errorf("the selector wants %s=%s, and pods have %v", key, value, set.Spec.Template.Labels)
		}
	}
	agent := pod.Containers[0]
	security := agent.SecurityContext
	want := []corev1.Capability{"NET_ADMIN", "SYS_ADMIN", "NET_RAW", "NET_BIND_SERVICE"}
	if *security.Privileged || *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || *security.RunAsUser != 0 ||
		!slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) || !slices.Equal(security.Capabilities.Add, want) {
		t.Errorf("the agent may %+v", security)
	}
	var paths []string
	for _, mount := range agent.VolumeMounts {
		at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if at < 0 {
			t.Fatalf("there is no volume %s", mount.Name)
		}
		if host := pod.Volumes[at].HostPath; host != nil {
			paths = append(paths, host.Path+" "+mount.MountPath)
		}
	}
	if !slices.Equal(paths, []string{"/sys/fs/bpf /run/waymark/bpf"}) {
		t.Errorf("the agent has these paths of the node: %q", paths)
	}
	if configured, ok := found["ConfigMap"].(*corev1.ConfigMap); ok {
		if _, err := config.Parse("node.yaml", []byte(configured.Data["node.yaml"])); err != nil {
			t.Error(err)
		}
	}
}

func TestManifest(t *testing.T) {
	text, err := os.ReadFile("waymark.yaml")
	if err != nil {
		t.Fatal(err)
	}
	check(t, string(text))
	// As docs/how-to/containers.md does it with sed.
	named := regexp.MustCompile(`image: waymark:.*`).ReplaceAllString(string(text), "image: registry.example/waymark:1.2.3")
	if set := daemonSet(t, named); set.Spec.Template.Spec.Containers[0].Image != "registry.example/waymark:1.2.3" {
		t.Errorf("the manifest with another image has %+v", set)
	}
}

func daemonSet(t *testing.T, text string) *appsv1.DaemonSet {
	t.Helper()
	set, ok := objects(t, text)["DaemonSet"].(*appsv1.DaemonSet)
	if !ok {
		t.Fatalf("no DaemonSet in\n%s", text)
	}
	return set
}

// helm runs it on the chart, for the release of Kubernetes whose schemas are compared.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	program, err := exec.LookPath("helm")
	if err != nil {
		t.Skip("helm is not on the PATH; make interop builds it")
	}
	out, err := exec.Command(program, append(args, "--kube-version", "1.33.0")...).CombinedOutput()
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, out)
	}
	return strings.TrimPrefix(string(out), "---\n")
}

func TestChart(t *testing.T) {
	helm(t, "lint", "--strict", "../helm/waymark")
	for name, values := range map[string][]string{
		"as it is":         nil,
		"to remove":        {"--set", "config=node: {}"}, // as docs/how-to/containers.md does it
		"nothing optional": {"--set", "tolerations=null,resources=null,priorityClassName="},
		"as packaged":      {"--set-file", "config=../config/node.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			text := helm(t, append([]string{"template", "waymark", "../helm/waymark"}, values...)...)
			check(t, text)
			if name != "as it is" {
				return
			}
			manifest, err := os.ReadFile("waymark.yaml")
			if err != nil {
				t.Fatal(err)
			}
			chart, own := objects(t, text)["ConfigMap"].(*corev1.ConfigMap), objects(t, string(manifest))["ConfigMap"].(*corev1.ConfigMap)
			if strings.TrimSpace(chart.Data["node.yaml"]) != strings.TrimSpace(own.Data["node.yaml"]) {
				t.Errorf("the chart has %q, the manifest %q", chart.Data, own.Data)
			}
			// One file is for all nodes.
			c, err := config.Parse("node.yaml", []byte(own.Data["node.yaml"]))
			if err != nil || c.Node.ID != nil || c.Node.IDWide != nil {
				t.Errorf("the manifest gives all nodes one id: %+v, %v", c.Node, err)
			}
		})
	}
}

func TestChartOfEdges(t *testing.T) {
	text := helm(t, "template", "edge", "../helm/waymark", "--namespace", "oam",
		"--set", "existingConfigMap=edges,image.repository=registry.example/waymark,image.tag=1.2.3",
		"--set", "nodeSelector.role=edge,imagePullSecrets[0].name=pull,secrets={keys,tls.example},seLinuxOptions.type=spc_t",
		"--set-json", `affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":`+
			`[{"matchExpressions":[{"key":"role","operator":"In","values":["edge"]}]}]}}}`)
	check(t, text)
	if objects(t, text)["ConfigMap"] != nil {
		t.Error("there is a ConfigMap besides the existing one")
	}
	pod := daemonSet(t, text).Spec.Template.Spec
	if pod.NodeSelector["role"] != "edge" || pod.Containers[0].Image != "registry.example/waymark:1.2.3" ||
		pod.ImagePullSecrets[0].Name != "pull" ||
		pod.Containers[0].SecurityContext.SELinuxOptions.Type != "spc_t" || pod.Affinity.NodeAffinity == nil ||
		!slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == "edges" }) {
		t.Errorf("%+v", pod)
	}
	// Each Secret is mounted where values.yaml says, and only root reads it: agents refuse other keys.
	found := map[string]string{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if secret := pod.Volumes[at].Secret; secret != nil && mount.ReadOnly && *secret.DefaultMode == 0o400 {
			found[secret.SecretName] = mount.MountPath
		}
	}
	want := map[string]string{"keys": "/etc/waymark-secrets/keys", "tls.example": "/etc/waymark-secrets/tls.example"}
	if !maps.Equal(found, want) {
		t.Errorf("Secrets are mounted at %q, want %q", found, want)
	}
}
