//! Looking at a page, and changing it.

use super::frame::{FROZEN, Frame, Image};
use super::latch::Latched;
use super::{FrameName, Lsn, PageStore, Refused};
use crate::lane::Lane;
use crate::layout::stripes::BytesMut;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};

/// A page under the latch of its frame. Nothing was changed yet: [`Page::record`] begins the change.
pub struct Page<'c, 's> {
    store: &'c PageStore<'s>,
    frame: Frame<'s>,
    index: u32,
    state: &'c Latched<'s>,
}

impl<'s> Page<'_, 's> {
    /// The words of the page. Nobody changes them meanwhile.
    pub fn image(&self) -> Image<'s> {
        self.frame.image()
    }

    /// The newest change; none if the page was not changed since it was filled.
    pub fn newest(&self) -> Lsn {
        self.frame.newest()
    }

    /// Begins a change. `assign` gives it its log record, and returns the record's number. `floor`: the end of the log at any
    /// time before, as the log counts: what it counts never goes back, whatever LSNs do.
    ///
    /// The page is in the dirty list, by `floor`, before `assign` is called. So no one who looks for the oldest change
    /// can miss a record that has a number. The numbers of one page's records ascend, since its latch is held.
    ///
    /// If there is no record, nothing is changed. The page stays in the dirty list, and may be flushed without need.
    pub fn record<E>(
        &mut self,
        floor: Lsn,
        assign: impl FnOnce() -> Result<Lsn, E>,
    ) -> Result<Result<Writing<'_, 's>, E>, Refused> {
        let late = planted(Mutant::DIRTY_AFTER_RECORD);
        if !late {
            self.store.become_dirty(self.index, self.state, floor)?;
        }
        let lsn = match assign() {
            Ok(lsn) => lsn,
            Err(none) => return Ok(Err(none)),
        };
        if late {
            self.store.become_dirty(self.index, self.state, lsn)?;
        }
        self.frame.set_newest(lsn);
        self.frame.begin();
        Ok(Ok(Writing { frame: self.frame, lsn, page: core::marker::PhantomData }))
    }
}

/// A page that is being changed. Readers wait for its end, which is when this is dropped.
pub struct Writing<'p, 's> {
    frame: Frame<'s>,
    lsn: Lsn,
    /// Only one change of a page goes on at a time.
    page: core::marker::PhantomData<&'p mut ()>,
}

impl<'s> Writing<'_, 's> {
    /// The number of the change's record.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The words of the page.
    pub fn image(&self) -> Image<'s> {
        self.frame.image()
    }

    /// Writes bytes of the page from `at` on. Bytes behind its end are dropped.
    #[inline]
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.frame.put(at, bytes);
    }
}

impl<'s> BytesMut for Writing<'_, 's> {
    type View<'v>
        = Image<'s>
    where
        Self: 'v;

    fn view(&self) -> Image<'s> {
        self.image()
    }

    fn put_at(&mut self, at: usize, bytes: &[u8]) {
        self.put(at, bytes);
    }
}

impl Drop for Writing<'_, '_> {
    fn drop(&mut self) {
        self.frame.end();
    }
}

impl<'s> PageStore<'s> {
    /// What `look` returns about the page. It may be called several times, and be shown a mixture of two images; what it
    /// returned then is dropped. So it looks, bounds its loops, and believes nothing that it reads.
    #[inline]
    pub fn read<R>(&self, name: FrameName, look: impl Fn(Image<'_>) -> R) -> Result<R, Refused> {
        let frame = self.frame(name.index).ok_or(Refused::Moved)?;
        frame.warm();
        frame.read(name.generation, look)
    }

    /// Copies bytes of the page from `at` on. If it is refused, `out` may have a mixture.
    #[inline]
    pub fn copy(&self, name: FrameName, at: usize, out: &mut [u8]) -> Result<(), Refused> {
        let out = core::cell::RefCell::new(out);
        self.read(name, |image| image.copy(at, &mut out.borrow_mut()))
    }

    /// Changes a page. `has_tenure` says, under the frame's latch, whether this compute node still owns the page.
    /// Then `change` looks at the page, and calls [`Page::record`] if there is anything to change.
    ///
    /// Both are called once, or not at all. They are short, wait for nothing, and call the store for nothing else.
    /// Nothing is held when this returns.
    pub fn change<R>(
        &self,
        lane: &Lane<'_>,
        name: FrameName,
        has_tenure: impl FnOnce() -> bool,
        change: impl FnOnce(&mut Page<'_, 's>) -> Result<R, Refused>,
    ) -> Result<R, Refused> {
        let frame = self.frame(name.index).ok_or(Refused::Moved)?;
        let state = frame.latch_named(name)?;
        if state.get() & FROZEN != 0 && frame.freezer() != u32::from(lane.id().0) + 1 {
            lane.mark(Mark::PAGE_FROZEN);
            return Err(Refused::Frozen);
        }
        if !has_tenure() {
            return Err(Refused::NoTenure);
        }
        frame.warm();
        change(&mut Page { store: self, frame, index: name.index, state: &state })
    }
}
