import { expect, test } from 'vitest';
import {
  createCounters,
  createHistograms,
  createMetrics,
  createSessionCallCounter,
  formatMetrics,
  maxChildren,
  maxSessions,
  observeValue,
  overflowLabel,
} from '../../../src/observability/metrics/metrics.ts';
import { findSample, parseSamples } from './read-samples.ts';

const createTestMetrics = () => createMetrics({ isServer: (name) => name === 'notes', liveSessions: () => 3 });

test('L8: counts sessions, their durations and their calls', async () => {
  const metrics = createTestMetrics();
  metrics.sessionOpened('direct');
  for (let i = 0; i < 3; i++) metrics.called('notes', 'tools/call', 'ok', 0.02, 'one');
  metrics.called('notes', 'tools/list', 'ok', 0.02, 'one');
  metrics.sessionEnded('one', 'expired', 90);
  metrics.sessionEnded('two', 'ended', -5);
  const text = await metrics.text();
  expect(findSample(text, 'ambit_sessions_live')).toBe(3);
  expect(findSample(text, 'ambit_sessions_opened_total', { trust: 'direct' })).toBe(1);
  expect(findSample(text, 'ambit_sessions_ended_total', { reason: 'expired' })).toBe(1);
  expect(findSample(text, 'ambit_session_duration_seconds_sum')).toBe(90);
  expect(findSample(text, 'ambit_session_duration_seconds_bucket', { le: '300' })).toBe(2);
  expect(findSample(text, 'ambit_session_calls_sum')).toBe(3);
  expect(findSample(text, 'ambit_session_calls_bucket', { le: '0' })).toBe(1);
  expect(findSample(text, 'ambit_session_calls_bucket', { le: '5' })).toBe(2);
  expect(findSample(text, 'ambit_calls_total', { server: 'notes', method: 'tools/call', outcome: 'ok' })).toBe(3);
  expect(findSample(text, 'ambit_call_duration_seconds_count', { server: 'notes' })).toBe(4);
});

test('L8, P15: counts cache lookups, quotas, processes and refusals', async () => {
  const metrics = createTestMetrics();
  metrics.cacheLookedUp('notes', true);
  metrics.cacheLookedUp('notes', false);
  metrics.quotaRefused('user');
  metrics.contextNotSent('notes');
  metrics.processSpawned('notes');
  metrics.processReady('notes', 0.2, false);
  metrics.processEnded('notes');
  metrics.processSpawned('notes');
  metrics.processReady('notes', 0.3, true);
  metrics.processFailed('notes');
  metrics.httpRefused(401);
  const text = await metrics.text();
  const notes = { server: 'notes' };
  expect(findSample(text, 'ambit_cache_lookups_total', { ...notes, result: 'hit' })).toBe(1);
  expect(findSample(text, 'ambit_cache_lookups_total', { ...notes, result: 'miss' })).toBe(1);
  expect(findSample(text, 'ambit_quota_refusals_total', { scope: 'user' })).toBe(1);
  expect(findSample(text, 'ambit_calls_without_context_total', notes)).toBe(1);
  expect(findSample(text, 'ambit_process_starts_total', notes)).toBe(2);
  expect(findSample(text, 'ambit_process_restarts_total', notes)).toBe(1);
  expect(findSample(text, 'ambit_process_start_failures_total', notes)).toBe(1);
  expect(findSample(text, 'ambit_process_start_seconds_count', notes)).toBe(2);
  expect(findSample(text, 'ambit_processes_live', notes)).toBe(1);
  expect(findSample(text, 'ambit_http_refusals_total', { status: '401' })).toBe(1);
});

test('L8: events that have not happened are zero, not absent', async () => {
  const text = await createTestMetrics().text();
  for (const reason of ['ended', 'expired', 'evicted', 'closed', 'revoked']) {
    expect(findSample(text, 'ambit_sessions_ended_total', { reason })).toBe(0);
  }
  expect(findSample(text, 'ambit_quota_refusals_total', { scope: 'session' })).toBe(0);
  expect(findSample(text, 'ambit_session_calls_count')).toBe(0);
});

test('L9: agents cannot create labels: unknown servers and methods are counted together', async () => {
  const metrics = createTestMetrics();
  for (let i = 0; i < 5000; i++) metrics.called(`server-${i}`, `tools/${i}`, 'SERVER_NOT_AVAILABLE', 0, undefined);
  const samples = parseSamples(await metrics.text()).filter(({ name }) => name === 'ambit_calls_total');
  expect(samples).toEqual([
    {
      name: 'ambit_calls_total',
      labels: { server: overflowLabel, method: overflowLabel, outcome: 'SERVER_NOT_AVAILABLE' },
      value: 5000,
    },
  ]);
});

test('a family stops growing at its limit, and goes on counting', () => {
  const family = createCounters('x_total', 'x', 'a', 'b');
  for (let i = 0; i < maxChildren + 500; i++) family.of(String(i), 'b').value++;
  const samples = parseSamples(formatMetrics([family]));
  expect(samples).toHaveLength(maxChildren + 1);
  expect(samples.at(-1)).toEqual({ name: 'x_total', labels: { a: overflowLabel, b: overflowLabel }, value: 500 });
  expect(samples.reduce((sum, { value }) => sum + value, 0)).toBe(maxChildren + 500);
});

test('sessions whose end is never reported are forgotten', () => {
  const calls = createSessionCallCounter();
  for (let i = 0; i <= maxSessions; i++) calls.add(String(i));
  expect([calls.take('0'), calls.take('1'), calls.take('1')]).toEqual([0, 1, 0]);
});

test('the text has the format of Prometheus: help and type once, cumulative buckets, escaped labels', () => {
  const family = createCounters('x_total', 'a\nb \\ c', 'l');
  family.of('quote " back \\ line \n end').value = 2;
  const times = createHistograms('t_seconds', 't', [1, 2]);
  for (const value of [0.5, 1, 1.5, 9]) observeValue(times, times.of(), value);
  expect(formatMetrics([family, times])).toBe(
    [
      '# HELP x_total a\\nb \\\\ c',
      '# TYPE x_total counter',
      'x_total{l="quote \\" back \\\\ line \\n end"} 2',
      '# HELP t_seconds t',
      '# TYPE t_seconds histogram',
      't_seconds_bucket{le="1"} 2',
      't_seconds_bucket{le="2"} 3',
      't_seconds_bucket{le="+Inf"} 4',
      't_seconds_sum 12',
      't_seconds_count 4',
      '',
    ].join('\n'),
  );
  expect(parseSamples(formatMetrics([family]))[0]?.labels).toEqual({ l: 'quote " back \\ line \n end' });
});
