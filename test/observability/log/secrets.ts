import { generateKeyPairSync } from 'node:crypto';
import { seed } from '../../random-seed.ts';

const upper = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const digits = '0123456789';
const base62 = `${upper}${upper.toLowerCase()}${digits}`;
const hex = '0123456789abcdef';

let state = seed;

/** Enough to look random, and the same for the same seed. */
function below(most: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * most);
}

/** Made, not copied: a scanner that knows the examples in everybody's manuals lets those pass. */
export function random(alphabet: string, length: number): string {
  return Array.from({ length }, () => alphabet[below(alphabet.length)]).join('');
}

const word = (length: number) => random(base62, length);

/** Credentials in the shapes their makers give them; the rules of others must find each. */
export const knownToOthers: Readonly<Record<string, () => string>> = {
  'GitHub, personal': () => `ghp_${word(36)}`,
  'GitHub, app': () => `ghs_${word(36)}`,
  'GitHub, fine-grained': () => `github_pat_${word(22)}_${word(59)}`,
  'AWS secret': () => `AWS_SECRET_ACCESS_KEY=${word(20)}/${word(19)}`,
  'AWS secret in JSON': () => `{"aws_secret_access_key": "${word(40)}"}`,
  'Slack bot': () => `xoxb-${random(digits, 11)}-${random(digits, 11)}-${word(24)}`,
  'Slack hook': () => `https://hooks.slack.com/services/T${word(8)}/B${word(8)}/${word(24)}`,
  SendGrid: () => `SG.${word(22)}.${word(43)}`,
  npm: () => `//packages.example.org/:_authToken=npm_${word(36)}`,
  Shopify: () => `shpat_${random(hex, 32)}`,
  OpenAI: () => `sk-${word(20)}T3BlbkFJ${word(20)}`,
  Anthropic: () => `sk-ant-api03-${random(`${base62}_-`, 93)}AA`,
  Linear: () => `lin_api_${word(40)}`,
  'basic auth': () => `https://deploy:${word(20)}@git.example.org/repo`,
  Postgres: () => `postgres://app:${word(16)}@db.internal:5432/main`,
  MongoDB: () => `mongodb+srv://app:${word(16)}@cluster0.abcde.mongodb.net/x`,
  'private key': () =>
    generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
};
