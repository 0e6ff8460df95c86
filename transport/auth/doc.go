// Package auth verifies the JSON Web Tokens (RFC 7519) of game clients, and makes tokens for tests and small setups.
//
// Start with a [KeySource], make a [Verifier] of it with [New], and call [Verifier.Verify]. A [Signer] makes tokens.
//
// The package promises:
//
//   - The key decides the algorithm, never the token: HS256 for a secret, RS256, ES256 or EdDSA for a public key. No
//     key comes from a token.
//   - It refuses a token without exp, and one whose claims two JSON readers could understand differently: with a
//     duplicate name, or one in other letter case. Clocks get no leeway.
//   - No error and no log line contains a token or a part of one.
//   - A changed key file is read again within a second. While its new content is unusable, the old keys stay valid.
//
// It does not promise that a token is used once, or that it can be revoked before it expires; to revoke all tokens of
// a key, replace the key.
//
// The package runs no goroutines. All of it is safe for concurrent use.
package auth
