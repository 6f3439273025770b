// SPDX-License-Identifier: Apache-2.0

// Package replacefile replaces files whole.
package replacefile

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces a file, or makes it. A crash, of the program or of the machine, leaves either the old
// or the new one complete. One program writes a file at a time.
func Write(path string, content []byte, mode fs.FileMode) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(next) // of a full disk, it keeps nothing
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// syncDirectory makes the renaming outlast a crash of the machine.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
