// SPDX-License-Identifier: Apache-2.0

// Command picture draws the path of one packet as an SVG: `make picture` gives
// it the JSON lines of a demo. Usage: picture BASE < RECORDS writes the drawing
// to BASE.svg and the record that it shows to BASE.json.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
)

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(arguments []string, in io.Reader) error {
	if len(arguments) != 1 {
		return errors.New("usage: picture BASE < RECORDS")
	}
	path, err := choose(in)
	if err != nil {
		return err
	}
	if err := os.WriteFile(arguments[0]+".json", record.AppendLine(nil, path), 0o644); err != nil {
		return err
	}
	return os.WriteFile(arguments[0]+".svg", draw(path), 0o644)
}

// choose returns the first UDP path that has all values of the drawing.
func choose(in io.Reader) (*record.Path, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r, err := record.Parse(lines.Bytes())
		if err != nil {
			return nil, err
		}
		if path, ok := r.(*record.Path); ok && isDrawable(path) {
			return path, nil
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, problem.New("no complete UDP path with all times is among the records", "run the demo again")
}

func isDrawable(p *record.Path) bool {
	const udp = 17
	if !p.Complete || p.Delay == nil || p.Packet.NextHeader != udp || len(p.Nodes) < 3 {
		return false
	}
	for i, n := range p.Nodes {
		inside := i > 0 && i < len(p.Nodes)-1
		if n.Node == "" || i > 0 && n.SincePrevious == nil || inside && !n.TransitDelay.Valid {
			return false
		}
	}
	return true
}
