// SPDX-License-Identifier: Apache-2.0

import { defineConfig } from 'vite'

// `npm run dev` serves the sources, and asks the collector of this machine.
const collector = process.env.WAYMARK_COLLECTOR ?? 'http://[::1]:4780'

export default defineConfig({
  build: {
    target: 'es2022', cssCodeSplit: false, assetsInlineLimit: 0, modulePreload: { polyfill: false }, outDir: '../../build/console', emptyOutDir: true,
    // Names stay the same, so that a merge shows which files changed; the address has the hash.
    rollupOptions: { output: { entryFileNames: 'assets/console.js', chunkFileNames: 'assets/[name].js', assetFileNames: 'assets/[name].[ext]' } },
  },
  server: { proxy: { '/v1': { target: collector, changeOrigin: true } } },
})
