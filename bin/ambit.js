#!/usr/bin/env node
import { main } from '../dist/cli/main.js';

process.exitCode = await main(process.argv.slice(2), process.env);
// Whoever has stopped reading our output must not keep us from leaving.
setTimeout(() => process.exit(), 2000).unref();
