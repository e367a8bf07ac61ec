import { type ReadonlySignal, type Signal, useSignal, useSignalEffect } from '@preact/signals';
import { useCallback, useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type { RequestOf } from '../../src/entrances/control/routes.ts';
import { isPaused } from './events.ts';
import { type AnswerOf, type RouteName, request } from './request.ts';

/** An answer of the control API that a view shows. */
export interface Loaded<Answer> {
  /** The latest answer. It stays while a newer one is loading. */
  readonly answer: ReadonlySignal<Answer | undefined>;
  readonly error: ReadonlySignal<Error | undefined>;
  readonly isLoading: ReadonlySignal<boolean>;
  reload(): Promise<void>;
}

interface Options {
  /** Asks again after this time while the page is visible and not paused, and at once when the pause ends. */
  readonly everyMs?: number | undefined;
  /** Asks again when this value changes. */
  readonly after?: unknown;
  /** Waits with the first request until this is true. */
  readonly when?: boolean;
}

/** Asks the control API when the view opens, and again when the request changes. */
export function useRequest<Name extends RouteName>(
  name: Name,
  parts: RequestOf<Name> = {},
  { everyMs, after, when = true }: Options = {},
): Loaded<AnswerOf<Name>> {
  const answer: Signal<AnswerOf<Name> | undefined> = useSignal(undefined);
  const error = useSignal<Error | undefined>(undefined);
  const isLoading = useSignal(when);
  const running = useRef<AbortController>(undefined);
  const key = JSON.stringify([name, parts]);

  const reload = useCallback(async () => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    isLoading.value = true;
    try {
      const [asked, given] = JSON.parse(key) as [Name, RequestOf<Name>];
      const found = await request(asked, { ...given, signal: controller.signal });
      // Another request may have been made since the answer arrived.
      if (controller.signal.aborted) return;
      answer.value = found;
      error.value = undefined;
    } catch (failure) {
      if (controller.signal.aborted) return;
      error.value = failure as Error;
    } finally {
      if (running.current === controller) isLoading.value = false;
    }
  }, [key]);

  // Before the page is drawn: an answer to another question is never shown.
  useLayoutEffect(() => {
    if (!when) return;
    answer.value = undefined;
    error.value = undefined;
    void reload();
    return () => running.current?.abort();
  }, [key, when]);

  const isRenewed = when && everyMs !== undefined && !isPaused.value;
  const wasPaused = useRef(false);
  useEffect(() => {
    if (!isRenewed) return;
    if (wasPaused.current) void reload();
    const timer = setInterval(() => {
      // An answer that takes longer than the interval would otherwise never arrive.
      if (document.visibilityState === 'visible' && !isLoading.peek()) void reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [key, everyMs, isRenewed]);
  useEffect(() => {
    wasPaused.current = isPaused.value;
  });

  const seen = useRef(after);
  useEffect(() => {
    const isNew = seen.current !== after;
    seen.current = after;
    if (isNew && when) void reload();
  }, [after]);

  return { answer, error, isLoading, reload };
}

/** Calls the function when a signal that it reads changes, as long as the component is shown. */
export const useReaction = useSignalEffect;
