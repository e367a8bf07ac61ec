import { generateKeyPairSync } from 'node:crypto';
import { seed } from '../../random-seed.ts';

const upper = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const digits = '0123456789';
const base62 = `${upper}${upper.toLowerCase()}${digits}`;
const hex = '0123456789abcdef';

let state = seed;

/** A deterministic pseudorandom number for the seed. */
function nextRandom(most: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * most);
}

/** Generated, not copied: scanners ignore the examples of well-known manuals. */
export function randomText(alphabet: string, length: number): string {
  return Array.from({ length }, () => alphabet[nextRandom(alphabet.length)]).join('');
}

const randomWord = (length: number) => randomText(base62, length);

/** Credentials in the formats of their issuers; the rules of secretlint must find each. */
export const knownCredentials: Readonly<Record<string, () => string>> = {
  'GitHub, personal': () => `ghp_${randomWord(36)}`,
  'GitHub, app': () => `ghs_${randomWord(36)}`,
  'GitHub, fine-grained': () => `github_pat_${randomWord(22)}_${randomWord(59)}`,
  'AWS secret': () => `AWS_SECRET_ACCESS_KEY=${randomWord(20)}/${randomWord(19)}`,
  'AWS secret in JSON': () => `{"aws_secret_access_key": "${randomWord(40)}"}`,
  'Slack bot': () => `xoxb-${randomText(digits, 11)}-${randomText(digits, 11)}-${randomWord(24)}`,
  'Slack hook': () => `https://hooks.slack.com/services/T${randomWord(8)}/B${randomWord(8)}/${randomWord(24)}`,
  SendGrid: () => `SG.${randomWord(22)}.${randomWord(43)}`,
  npm: () => `//packages.example.org/:_authToken=npm_${randomWord(36)}`,
  Shopify: () => `shpat_${randomText(hex, 32)}`,
  OpenAI: () => `sk-${randomWord(20)}T3BlbkFJ${randomWord(20)}`,
  Anthropic: () => `sk-ant-api03-${randomText(`${base62}_-`, 93)}AA`,
  Linear: () => `lin_api_${randomWord(40)}`,
  'basic auth': () => `https://deploy:${randomWord(20)}@git.example.org/repo`,
  Postgres: () => `postgres://app:${randomWord(16)}@db.internal:5432/main`,
  MongoDB: () => `mongodb+srv://app:${randomWord(16)}@cluster0.abcde.mongodb.net/x`,
  'private key': () =>
    generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
};
