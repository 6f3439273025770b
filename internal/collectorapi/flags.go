// SPDX-License-Identifier: Apache-2.0

package collectorapi

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/inputfile"
)

// Flags say which collector is asked, and by whom. Those that are not given are those of the environment.
type Flags struct {
	Address, CA, User, PasswordFile string

	cmd   *cobra.Command
	fixed bool              // the address is known
	shown *x509.Certificate // see [Flags.At]
}

// The variables of the environment that are in place of flags.
const (
	variableAddress  = "WAYMARK_COLLECTOR"
	variableCA       = "WAYMARK_COLLECTOR_CA"
	variableUser     = "WAYMARK_COLLECTOR_USER"
	variablePassword = "WAYMARK_COLLECTOR_PASSWORD_FILE"
)

// Add adds them to a command.
func (f *Flags) Add(cmd *cobra.Command) {
	f.cmd = cmd
	flags := cmd.Flags()
	flags.StringVar(&f.Address, "collector", UsualURL, "`URL` of the collector's API; without it, $"+variableAddress)
	flags.StringVar(&f.CA, "ca", "", "`FILE` of the authority that signed the collector's certificate; without it, $"+variableCA+
		" (default: those of the system)")
	flags.StringVar(&f.User, "user", "", "`NAME` of a user of the collector; over plain http, the password is readable on the way; "+
		"without it, $"+variableUser)
	flags.StringVar(&f.PasswordFile, "password-file", "", "`FILE` with the user's password; without it, $"+variablePassword)
}

// At asks at an address that whoever asks knows, where no flag names another one. certificate is the one that the
// collector has there, if no flag names an authority; nil: any that is trusted.
func (f *Flags) At(address string, certificate *x509.Certificate) {
	if f.cmd.Flags().Changed("collector") {
		return
	}
	f.Address, f.fixed = address, true
	if !f.cmd.Flags().Changed("ca") {
		f.shown = certificate
	}
}

// fromEnvironment completes flags that are not given. User, password and authority are those of the environment's
// collector: another one gets none of them.
func (f *Flags) fromEnvironment() {
	given := func(flag string) bool { return f.cmd != nil && f.cmd.Flags().Changed(flag) }
	set := func(flag, variable string, to *string) {
		if value := os.Getenv(variable); value != "" && !given(flag) {
			*to = value
		}
	}
	if f.fixed || given("collector") {
		if f.Address != os.Getenv(variableAddress) {
			return
		}
	} else {
		set("collector", variableAddress, &f.Address)
	}
	set("ca", variableCA, &f.CA)
	if given("user") { // whose password is another one
		return
	}
	set("user", variableUser, &f.User)
	set("password-file", variablePassword, &f.PasswordFile)
}

// Client reads the files that the flags name.
func (f *Flags) Client() (*Client, error) {
	f.fromEnvironment()
	a := Asked{Address: f.Address, User: f.User, Words: flagWords, Certificate: f.shown}
	if _, err := a.url(); err != nil {
		return nil, err
	}
	var err error
	if f.CA != "" {
		if a.CA, err = inputfile.Read(f.CA, mostFile); err != nil {
			return nil, err
		}
	}
	if f.User != "" {
		if f.PasswordFile == "" {
			return nil, commandline.Usagef("user %q needs a password: --password-file, or with the user of $%s also $%s",
				f.User, variableUser, variablePassword)
		}
		text, err := inputfile.Read(f.PasswordFile, mostFile)
		if err != nil {
			return nil, err
		}
		a.Password = Password(text)
	}
	c, err := a.Client()
	if errors.Is(err, errNoCertificate) {
		return nil, fmt.Errorf("--ca: %s has no certificate in PEM", f.CA)
	}
	return c, err
}
