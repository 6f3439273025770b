// SPDX-License-Identifier: Apache-2.0

// Compress makes the bindings that bpf2go writes embed their objects compressed: a program
// carries a fifth of the bytes, and unpacks an object in milliseconds when it loads it.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/waymark-net/waymark/internal/problem"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: compress DIRECTORY")
		os.Exit(2)
	}
	if err := compressAll(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "compress:", err)
		os.Exit(1)
	}
}

// compressAll compresses the objects of a directory. It needs the function unpacked there.
func compressAll(directory string) error {
	objects, err := filepath.Glob(filepath.Join(directory, "*_bpfel.o"))
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		return problem.New(fmt.Sprintf("%s has no objects", directory), "run go generate for the package that has its bpf2go lines")
	}
	for _, object := range objects {
		if err := compress(object); err != nil {
			return fmt.Errorf("%s: %w", object, err)
		}
	}
	return nil
}

// compress replaces an object by a compressed one, which its binding then embeds.
func compress(object string) error {
	content, err := os.ReadFile(object)
	if err != nil {
		return err
	}
	if err := writePacked(object+".gz", content); err != nil {
		return err
	}
	if err := rewrite(strings.TrimSuffix(object, ".o")+".go", filepath.Base(object)); err != nil {
		return err
	}
	return os.Remove(object)
}

// writePacked writes the compressed content, unless the file has it already: the octets of another
// version of Go may differ.
func writePacked(name string, content []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(unpack(old), content) {
		return nil
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, packed.Bytes(), 0o644)
}

// unpack returns nil for what is no compressed file.
func unpack(packed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	return content
}

// rewrite makes a binding embed and read the compressed object.
func rewrite(binding, object string) error {
	content, err := os.ReadFile(binding)
	if err != nil {
		return err
	}
	text := string(content)
	for _, change := range [][2]string{
		{"//go:embed " + object + "\n", "//go:embed " + object + ".gz\n"},
		{"bytes.NewReader(", "unpacked("},
		{"\t\"bytes\"\n", ""},
	} {
		if strings.Count(text, change[0]) != 1 {
			return problem.New("bpf2go writes another binding than before", "adapt scripts/compress")
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return os.WriteFile(binding, []byte(text), 0o644)
}
