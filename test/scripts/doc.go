// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package scripts tests the product as its users meet it: a script in testdata
// gives objects as YAML files, says what happens, and has the tables that the
// agent and VPP must show then. One file is one scenario that has failed users of
// such software before, and can be read without knowing the code.
//
// The agent is the production code from Send to a unix socket, on which vppsim
// answers as VPP does. Eight in a hundred of the writes fail, so every script
// is a test of retries as well. When a script has ended, expand_test.go
// plays its objects again in other orders, to fresh agents, which must end up
// the same.
//
// README.md has the commands, and says for each scenario where it is tested.
package scripts
