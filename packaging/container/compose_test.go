// SPDX-License-Identifier: Apache-2.0

//go:build interop

// Package container has what runs an agent and a collector by Compose. Its test takes minutes to compile,
// so it belongs to `make interop`.
package container

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// TestCompose loads the file as Compose does, by its schema: an unknown key, or a value of another type,
// is an error. What matters is least privilege, and that what is kept outlives a container.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"compose.yaml"}, cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if names := project.ServiceNames(); !slices.Equal(names, []string{"agent", "collector"}) {
		t.Fatalf("services %q", names)
	}
	version, err := os.ReadFile("../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	for name, image := range map[string]string{"agent": "waymark:", "collector": "waymark-collector:"} {
		s := project.Services[name]
		if s.Image != image+strings.TrimSpace(string(version)) {
			t.Errorf("%s runs the image %s", name, s.Image)
		}
		if !s.ReadOnly || s.Privileged || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s has more privileges than it needs: %+v", name, s)
		}
		if s.NetworkMode != "host" || s.Restart != "always" {
			t.Errorf("%s: network %s, restart %s", name, s.NetworkMode, s.Restart)
		}
	}
	agent, collector := project.Services["agent"], project.Services["collector"]
	if want := []string{"NET_ADMIN", "SYS_ADMIN", "NET_RAW", "NET_BIND_SERVICE"}; !slices.Equal(agent.CapAdd, want) {
		t.Errorf("the agent gets %q", agent.CapAdd)
	}
	if len(collector.CapAdd) > 0 || collector.User != "" { // the image's user
		t.Errorf("the collector gets %q, as user %q", collector.CapAdd, collector.User)
	}
	if !mounts(agent, types.VolumeTypeBind, "/run/waymark/bpf") || !mounts(agent, types.VolumeTypeBind, "/etc/waymark") {
		t.Errorf("the agent's volumes: %+v", agent.Volumes)
	}
	if !mounts(collector, types.VolumeTypeVolume, "/var/lib/waymark") {
		t.Errorf("the collector's volumes: %+v", collector.Volumes)
	}
}

func mounts(s types.ServiceConfig, kind, target string) bool {
	return slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Type == kind && v.Target == target })
}
