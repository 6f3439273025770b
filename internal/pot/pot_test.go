// SPDX-License-Identifier: Apache-2.0

package pot

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stream is a random stream that is the same in every run.
func stream(seed uint64) *rand.ChaCha8 {
	var b [32]byte
	b[0], b[1] = byte(seed), byte(seed>>8)
	return rand.NewChaCha8(b)
}

func generate(t testing.TB, nodes int, seed uint64) []*Key {
	t.Helper()
	keys, err := Generate(nodes, stream(seed))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// edges are the numbers at which arithmetic goes wrong.
var edges = []uint64{0, 1, 2, 3, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 60, Prime - 2, Prime - 1}

// The field against math/big.
func TestFieldArithmetic(t *testing.T) {
	p := new(big.Int).SetUint64(Prime)
	if !p.ProbablyPrime(40) {
		t.Fatal("the modulus is not a prime")
	}
	rng := rand.New(rand.NewPCG(1, 61))
	numbers := append([]uint64{}, edges...)
	for range 300 {
		numbers = append(numbers, rng.Uint64N(Prime))
	}
	for _, a := range numbers {
		for _, b := range numbers {
			x, y := new(big.Int).SetUint64(a), new(big.Int).SetUint64(b)
			for name, v := range map[string]struct {
				got  uint64
				want *big.Int
			}{
				"+": {add(a, b), new(big.Int).Add(x, y)},
				"-": {sub(a, b), new(big.Int).Sub(x, y)},
				"·": {mul(a, b), new(big.Int).Mul(x, y)},
			} {
				if want := v.want.Mod(v.want, p).Uint64(); v.got != want {
					t.Fatalf("%d %s %d = %d, want %d", a, name, b, v.got, want)
				}
			}
		}
		if a != 0 && mul(a, inverse(a)) != 1 {
			t.Fatalf("the inverse of %d is %d", a, inverse(a))
		}
	}
	for _, x := range append(edges, Prime, Prime+1, 1<<62, 1<<63, 1<<64-1, 2*Prime) {
		if got := reduce(x); got != x%Prime {
			t.Errorf("%d mod p = %d, want %d", x, got, x%Prime)
		}
	}
}

// The keys' sum is the secret, by interpolation with math/big.
func TestKeysInterpolateTheSecret(t *testing.T) {
	p := new(big.Int).SetUint64(Prime)
	for nodes := MinNodes; nodes <= MaxNodes; nodes += 7 {
		shares, public := new(big.Int), new(big.Int)
		keys := generate(t, nodes, uint64(nodes))
		for _, k := range keys {
			l := new(big.Int).SetUint64(k.lagrange)
			shares.Add(shares, new(big.Int).Mul(l, new(big.Int).SetUint64(k.share)))
			public.Add(public, new(big.Int).Mul(l, new(big.Int).SetUint64(k.public)))
		}
		if got := shares.Mod(shares, p).Uint64(); got != keys[nodes-1].secret {
			t.Errorf("%d nodes: the shares make %d, the secret is %d", nodes, got, keys[nodes-1].secret)
		}
		if public.Mod(public, p).Sign() != 0 {
			t.Errorf("%d nodes: the public polynomial adds %v", nodes, public)
		}
	}
}

// visit is the Cumulative after some nodes of a path, by their indices.
func visit(keys []*Key, pktID uint64, path []int) (cumulative uint64) {
	for _, i := range path {
		cumulative = keys[i].Update(pktID, cumulative)
	}
	return cumulative
}

func wholePath(nodes int) (path []int) {
	for i := range nodes {
		path = append(path, i)
	}
	return path
}

// A packet proves its way exactly if it passed every node once.
func TestProofs(t *testing.T) {
	rng := rand.New(rand.NewPCG(91, 97))
	for range 300 {
		nodes := MinNodes + rng.IntN(9)
		keys := generate(t, nodes, rng.Uint64N(1<<16))
		others := generate(t, nodes, rng.Uint64N(1<<16)|1<<15)
		last := keys[nodes-1]
		for _, pktID := range append(edges[:len(edges):len(edges)], rng.Uint64N(Prime)) {
			path := wholePath(nodes)
			if cumulative := visit(keys, pktID, path); !last.Proves(pktID, cumulative) {
				t.Fatalf("%d nodes, packet %d: a whole path makes %d", nodes, pktID, cumulative)
			}
			at := rng.IntN(nodes)
			skipped := append(append([]int{}, path[:at]...), path[at+1:]...)
			twice := append(append([]int{}, path[:at+1]...), path[at:]...)
			for name, wrong := range map[string]uint64{
				"a node skipped":         visit(keys, pktID, skipped),
				"a node passed twice":    visit(keys, pktID, twice),
				"an odd value":           visit(keys, pktID, path) ^ 1,
				"another packet's":       visit(keys, add(pktID, 1), path),
				"a node of another path": add(visit(keys, pktID, skipped), others[at].Update(pktID, 0)),
			} {
				if last.Proves(pktID, wrong) {
					t.Fatalf("%d nodes, packet %d: accepted with %s (%d)", nodes, pktID, name, at)
				}
			}
		}
	}
}

// What the scheme does not prove, as the documentation says: an observer of two packets
// before and after a node can do that node's update for any packet.
func TestLinearity(t *testing.T) {
	keys := generate(t, 4, 5)
	k := keys[1]
	const a, b, forged = 1000, 1001, 77
	factor := mul(sub(k.Update(b, 0), k.Update(a, 0)), inverse(b-a))
	summand := sub(k.Update(a, 0), mul(factor, a))
	if got, want := add(mul(factor, forged), summand), k.Update(forged, 0); got != want {
		t.Errorf("forged %d, the node writes %d", got, want)
	}
}

func TestRoles(t *testing.T) {
	for i, k := range generate(t, 4, 1) {
		want := [4]string{"encapsulating", "transit", "transit", "verifying"}[i]
		if k.Role() != want || k.Encapsulates() != (i == 0) || k.Verifies() != (i == 3) || (k.Secret() != 0) != (i == 3) {
			t.Errorf("node %d: %s, secret: %v", k.Node, k.Role(), k.Secret() != 0)
		}
	}
	for _, nodes := range []int{-1, 0, 1, MaxNodes + 1} {
		if _, err := Generate(nodes, nil); err == nil {
			t.Errorf("%d nodes have keys", nodes)
		}
	}
	if _, err := Generate(3, strings.NewReader("no randomness")); err == nil {
		t.Error("keys without random numbers")
	}
	first, err := Generate(3, nil)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Generate(3, nil); err != nil || second[2].secret == first[2].secret || second[0].Profile == first[0].Profile {
		t.Errorf("two profiles are alike; %v", err)
	}
}

// No way of printing shows a key.
func TestKeysAreNotPrinted(t *testing.T) {
	k := generate(t, 3, 7)[2]
	asJSON, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	holder := struct{ K *Key }{k}
	text := string(asJSON)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		text += fmt.Sprintf(verb+verb+verb, k, *k, holder)
	}
	for _, secret := range []uint64{k.share, k.public, k.lagrange, k.secret} {
		for _, form := range []string{"%d", "%x"} {
			if strings.Contains(text, fmt.Sprintf(form, secret)) {
				t.Errorf("%s of a key is in %s", form, text)
			}
		}
	}
}

func TestKeyFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	for _, k := range generate(t, 3, 9) {
		content := k.Append(nil)
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if back, err := Read(name); err != nil || *back != *k {
			t.Errorf("%v became %v, %v", k, back, err)
		}
		for cut := range content[:len(content)-2] {
			back, err := Parse(content[:cut])
			if err == nil {
				t.Fatalf("%d of %d bytes are the %v", cut, len(content), back)
			}
			checkQuotesNothing(t, k, err)
		}
		checkDamaged(t, k, string(content))
	}
	if err := os.Chmod(name, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(name); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
	if _, err := Read(name + ".none"); err == nil || !strings.Contains(err.Error(), "waymark pot generate") {
		t.Errorf("a file that does not exist: %v", err)
	}
}

// checkDamaged reads a key with one line changed.
func checkDamaged(t *testing.T, k *Key, content string) {
	t.Helper()
	for from, to := range map[string]string{
		"key 1\n":                             "key 2\n",
		fmt.Sprintf("node %d\n", k.Node):      "node 0\n",
		"nodes 3\n":                           "nodes 65\n",
		fmt.Sprintf("share %016x", k.share):   "share 1fffffffffffffff",
		fmt.Sprintf("%016x\n", k.public):      "none\n",
		fmt.Sprintf("%016x\n", k.lagrange):    "0000000000000000\n",
		fmt.Sprintf("%016x\nnode", k.Profile): "0\nshare",
	} {
		damaged := strings.Replace(content, from, to, 1)
		if damaged == content {
			t.Fatalf("%q is not in the file", from)
		}
		back, err := Parse([]byte(damaged))
		if err == nil {
			t.Errorf("%q for %q: %v", to, from, back)
			continue
		}
		checkQuotesNothing(t, k, err)
	}
	if _, err := Parse([]byte(content + "more 1\n")); err == nil {
		t.Error("a file with a line too many")
	}
}

func checkQuotesNothing(t *testing.T, k *Key, err error) {
	t.Helper()
	for _, secret := range []uint64{k.share, k.public, k.lagrange, k.secret} {
		if secret != 0 && strings.Contains(err.Error(), fmt.Sprintf("%x", secret)) {
			t.Fatalf("the error quotes the key: %v", err)
		}
	}
}

// FuzzParse: no file panics, and what is read is what would be written.
func FuzzParse(f *testing.F) {
	for _, k := range generate(f, 2, 3) {
		f.Add(k.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := Parse(b)
		if err != nil {
			return
		}
		if back, err := Parse(k.Append(nil)); err != nil || *back != *k {
			t.Fatalf("%q became %v, %v", b, back, err)
		}
		if !Valid(k.Update(1, 2)) || k.Role() == "" {
			t.Fatalf("%v is unusable", k)
		}
	})
}
