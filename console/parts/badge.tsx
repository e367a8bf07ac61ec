import type { ComponentChildren } from 'preact';
import { makeVisible } from './text.tsx';
import './badge.css';

export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'info' | 'accent';

/** A word on a coloured ground. The word alone says everything; the colour only helps. */
export function Badge({ tone = 'plain', children }: { readonly tone?: Tone; readonly children: ComponentChildren }) {
  return <span class={`badge badge-${tone}`}>{children}</span>;
}

export function TrustBadge({ level }: { readonly level: string }) {
  return <Badge tone={level === 'direct' ? 'warn' : 'good'}>{level}</Badge>;
}

const outcomeTones: Readonly<Record<string, Tone>> = { ok: 'good', 'tool-error': 'warn', 'server-error': 'warn' };

/** Shows how a call ended: `ok`, an error of the server, or the code of a refusal. */
export function Outcome({ value }: { readonly value: string }) {
  return <Badge tone={outcomeTones[value] ?? 'bad'}>{makeVisible(value.slice(0, 40))}</Badge>;
}

const stateTones: Readonly<Record<string, Tone>> = {
  running: 'good',
  reachable: 'good',
  active: 'good',
  approved: 'good',
  live: 'good',
  idle: 'plain',
  'not needed': 'plain',
  failed: 'bad',
  unreachable: 'bad',
  unapproved: 'warn',
  changed: 'warn',
  exposed: 'bad',
  lost: 'warn',
  wanted: 'warn',
  revoked: 'bad',
  expired: 'plain',
};

export function StateBadge({ state }: { readonly state: string }) {
  return <Badge tone={stateTones[state] ?? 'plain'}>{state}</Badge>;
}
