// SPDX-License-Identifier: Apache-2.0

// Command lint runs the checks of staticcheck, go vet and errorlint at once. Each
// alone would parse and type-check the packages and all their dependencies.
package main

import (
	"os"

	"github.com/polyfloyd/go-errorlint/errorlint"
	"golang.org/x/tools/go/analysis/suite/vet"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	command := lintcmd.NewCommand("lint")
	command.ParseFlags(os.Args[1:])
	command.AddAnalyzers(simple.Analyzers...)
	command.AddAnalyzers(staticcheck.Analyzers...)
	command.AddAnalyzers(stylecheck.Analyzers...)
	command.AddAnalyzers(unused.Analyzer)
	command.AddBareAnalyzers(vet.Suite...)
	command.AddBareAnalyzers(errorlint.NewAnalyzer())
	command.Run()
}
