// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/test/testnet"
)

func TestRemoveWithoutAgent(t *testing.T) {
	testnet.NeedRoot(t)
	instance := api.At(t.TempDir(), 9)
	removed, _, err := Remove(instance, func(string) (Removable, error) { return nil, errors.New("nothing to open") })
	if removed || err != nil {
		t.Errorf("nothing was left: %v, %v", removed, err)
	}
	if _, err := os.Stat(instance.Dir); err == nil {
		t.Error("looking for what is left made the runtime directory")
	}

	held, err := Hold(instance)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Remove(instance, nil); !errors.Is(err, ErrAgentRuns) {
		t.Errorf("removed under a running agent: %v", err)
	}
	held.Release()
	if removed, _, err := Remove(instance, nil); removed || err != nil {
		t.Errorf("an agent that pinned nothing: %v, %v", removed, err)
	}
	if _, err := os.Stat(instance.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the runtime directory is left: %v", err)
	}
}

func TestLockSurvivesItsDirectory(t *testing.T) {
	instance := api.At(t.TempDir(), 10)
	first, err := Hold(instance)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Clear(); err != nil {
		t.Fatal(err)
	}
	second, err := Hold(instance)
	if err != nil {
		t.Fatalf("after the holder removed everything: %v", err)
	}
	defer second.Release()
	if _, err := Hold(instance); !errors.Is(err, ErrAgentRuns) {
		t.Errorf("a second holder: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := WaitEnded(ctx, instance); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a holder that stays: %v", err)
	}
	second.Release()
	if err := WaitEnded(context.Background(), instance); err != nil {
		t.Errorf("waiting for a holder that went: %v", err)
	}
}
