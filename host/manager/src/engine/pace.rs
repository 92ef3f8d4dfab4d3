//! How a call that takes long shares the processors with all others.
//!
//! In: the epochs that pass while a guest computes. Out: whether it goes on at
//! once, after a pause, or not at all. Kept: most calls are over before any of
//! this counts. One that is not takes its turn with its like, who never have all
//! processors at once, and steps back while somebody else wants its processor:
//! the longer it has computed, the further. It pauses between two instructions
//! of the guest, where it holds nothing of the host's, so nobody ever waits for
//! it; and its pauses do not count towards its deadline, up to its length once more.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use rustix::time::{ClockId, clock_gettime};

use super::epoch::{self, Ticks};

/// How long a call computes before its thread is looked at: asking for its time costs more than many a call does. One
/// that goes on for an epoch more counts as one that takes long.
const SHORT: Duration = Duration::from_millis(10);
/// A thread that has had less than this share of its time on a processor was
/// kept from it by others.
const UNDISTURBED: f64 = 0.9;
/// How often as long as it computed a call pauses at most: it is left a tenth of
/// a processor.
const FURTHEST: u64 = 9;
/// Epochs of computing after which it steps back once further.
const FURTHER: u64 = 5;
/// How often as long as it may compute a call may take with its pauses.
const WITH_PAUSES: u64 = 2;
/// A pause is never longer.
const PAUSE: Duration = Duration::from_millis(100);

/// Turns of calls that take long.
#[derive(Debug)]
pub(super) struct Turns {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: usize,
    /// Everybody goes on as fast as they can: the end is near.
    hurries: bool,
}

impl Turns {
    /// All processors but one, and at least one.
    pub(super) fn of(processors: usize) -> Arc<Self> {
        let free = processors.saturating_sub(1).max(1);
        Arc::new(Self {
            state: Mutex::new(State { free, waiting: 0, hurries: false }),
            freed: Condvar::new(),
        })
    }

    /// None once nobody waits any more.
    fn take(self: &Arc<Self>) -> Option<Turn> {
        let mut state = self.state.lock();
        // Whoever waits goes first.
        if state.free == 0 || state.waiting > 0 {
            state.waiting += 1;
            while state.free == 0 && !state.hurries {
                self.freed.wait(&mut state);
            }
            state.waiting -= 1;
        }
        if state.hurries {
            return None;
        }
        state.free -= 1;
        Some(Turn(self.clone()))
    }

    fn is_waited_for(&self) -> bool {
        self.state.lock().waiting > 0
    }

    /// Has nobody wait or pause from now on, so that all are done soon.
    pub(super) fn hurry(&self) {
        self.state.lock().hurries = true;
        self.freed.notify_all();
    }

    fn hurries(&self) -> bool {
        self.state.lock().hurries
    }
}

/// A turn that was taken.
#[derive(Debug)]
struct Turn(Arc<Turns>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.state.lock().free += 1;
        self.0.freed.notify_one();
    }
}

/// One call, and then the next one, of an instance.
#[derive(Debug)]
pub(super) struct Pace {
    ticks: Ticks,
    turns: Arc<Turns>,
    turn: Option<Turn>,
    /// The epochs in which it began, and in which it is stopped.
    begun: u64,
    end: u64,
    /// The one in which it is stopped at the latest, whatever it paused.
    latest: u64,
    /// When it was last looked at, and what its thread had computed by then. None
    /// while it is short.
    seen: Option<(Instant, Duration)>,
    paused: Duration,
}

impl Pace {
    pub(super) fn new(ticks: Ticks, turns: Arc<Turns>) -> Self {
        Self { ticks, turns, turn: None, begun: 0, end: 0, latest: 0, seen: None, paused: Duration::ZERO }
    }

    /// A call begins that may take so long; the epochs until it is to be asked
    /// for the first time.
    pub(super) fn begin(&mut self, limit: Duration) -> u64 {
        let epochs = epoch::epochs(limit);
        self.begun = self.ticks.now();
        self.end = self.begun.saturating_add(epochs);
        self.latest = self.begun.saturating_add(epochs.saturating_mul(WITH_PAUSES));
        self.seen = None;
        self.paused = Duration::ZERO;
        epochs.min(epoch::epochs(SHORT))
    }

    /// It has ended; how long it paused.
    pub(super) fn end(&mut self) -> Duration {
        self.turn = None;
        std::mem::take(&mut self.paused)
    }

    /// It computes still: whether it may go on, which is answered after a pause
    /// if there is to be one.
    pub(super) fn may_go_on(&mut self) -> bool {
        let now = self.ticks.now();
        if now >= self.end {
            return false;
        }
        if self.turns.hurries() {
            return true;
        }
        let begun = Instant::now();
        let Some(asked) = self.seen else {
            self.seen = Some((begun, computed()));
            return true;
        };
        let busy = computed().saturating_sub(asked.1);
        let share = busy.as_secs_f64() / begun.duration_since(asked.0).as_secs_f64().max(1e-9);
        if share < UNDISTURBED || self.turns.is_waited_for() {
            self.turn = None;
        }
        if share < UNDISTURBED {
            let times = (now.saturating_sub(self.begun) / FURTHER).clamp(1, FURTHEST);
            thread::sleep((busy * times as u32).min(PAUSE));
        }
        if self.turn.is_none() {
            self.turn = self.turns.take();
        }
        let slept = self.ticks.now().saturating_sub(now);
        self.begun += slept;
        self.end = self.end.saturating_add(slept).min(self.latest);
        self.paused += begun.elapsed();
        self.seen = Some((Instant::now(), computed()));
        true
    }
}

/// How long this thread has been on a processor.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn calls_that_take_long_never_have_all_processors_and_all_get_on() {
        for (processors, most) in [(1, 1), (2, 1), (4, 3)] {
            let turns = Turns::of(processors);
            let (at_once, worst, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for _ in 0..20 {
                            let turn = turns.take();
                            worst.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            thread::sleep(Duration::from_micros(200));
                            at_once.fetch_sub(1, Ordering::SeqCst);
                            drop(turn);
                            done.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
            });
            assert_eq!(done.load(Ordering::SeqCst), 160);
            assert!(worst.load(Ordering::SeqCst) <= most, "{worst:?} of {processors}");
        }
    }

    /// As a guest that spins for a while; its share of the wall time.
    fn spin(pace: &mut Pace, ticks: &Ticks, epochs: u64) -> (Duration, Duration) {
        let (begun, before) = (Instant::now(), computed());
        pace.begin(Duration::from_secs(60));
        for _ in 0..epochs {
            let end = Instant::now() + Duration::from_millis(10);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            ticks.advance();
            assert!(pace.may_go_on());
        }
        (computed() - before, begun.elapsed())
    }

    #[test]
    fn it_steps_back_for_others_and_for_nobody_else_and_pauses_are_not_its_time() {
        let ticks = Ticks::default();
        let mut pace = Pace::new(ticks.clone(), Turns::of(2));
        // Somebody wants each processor.
        let stop = std::sync::atomic::AtomicBool::new(false);
        let processors = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..processors * 2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let (computed, took) = spin(&mut pace, &ticks, 60);
            stop.store(true, Ordering::Relaxed);
            let paused = pace.end();
            assert!(computed < took / 4, "it had {computed:?} of {took:?}");
            assert!(paused > took / 5, "it paused {paused:?} of {took:?}");
            assert!(pace.turn.is_none(), "its turn is over");
        });
        // An epoch that passes while it pauses is none of its own.
        pace.begin(Duration::from_secs(1));
        let end = pace.end;
        pace.turn = None;
        let holder = pace.turns.take();
        assert!(pace.may_go_on(), "it is short as yet");
        let advanced = ticks.clone();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            (0..100).for_each(|_| advanced.advance());
            drop(holder);
        });
        assert!(pace.may_go_on(), "it waited for its turn");
        other.join().unwrap();
        assert_eq!(pace.end, end + 100);
        // At the end of all nobody waits, and the time is what it was.
        pace.turn = None;
        let holder = pace.turns.take();
        let (turns, waits) = (pace.turns.clone(), thread::spawn(move || pace.may_go_on().then_some(pace)));
        thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished());
        turns.hurry();
        let mut pace = waits.join().unwrap().expect("it may go on");
        assert!(pace.may_go_on());
        drop(holder);
        // And one that is over its time is stopped, or that has paused for very long.
        (0..101).for_each(|_| ticks.advance());
        assert!(!pace.may_go_on());
        pace.begin(Duration::from_millis(40));
        assert!(pace.seen.is_none(), "nothing is asked of a call that is over at once");
        pace.end = pace.end.saturating_add(1000).min(pace.latest);
        (0..15).for_each(|_| ticks.advance());
        assert!(!pace.may_go_on());
    }
}
