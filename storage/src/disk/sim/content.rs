//! What a file holds: pages that copies share until one of them is written.

use std::rc::Rc;

use super::super::PAGE;

type Page = [u8; PAGE];

/// Size and pages of a file. A clone costs nothing; a page that was never allocated reads as zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    size: u64,
    pages: Rc<Vec<Option<Rc<Page>>>>,
    allocated: u64,
}

impl Content {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Pages that take space.
    pub(super) fn allocated_pages(&self) -> u64 {
        self.allocated
    }

    /// Pages that a write of `length` bytes at `position` would take in addition.
    pub(super) fn missing_pages(&self, position: u64, length: u64) -> u64 {
        let end = (position + length).div_ceil(PAGE as u64);
        let missing = |page: &u64| self.pages.get(*page as usize).is_none_or(Option::is_none);
        (position / PAGE as u64..end).filter(missing).count() as u64
    }

    fn page_mut(&mut self, index: usize) -> &mut Page {
        let pages = Rc::make_mut(&mut self.pages);
        if pages.len() <= index {
            pages.resize(index + 1, None);
        }
        let page = &mut pages[index];
        if page.is_none() {
            self.allocated += 1;
        }
        Rc::make_mut(page.get_or_insert_with(|| Rc::new([0; PAGE])))
    }

    /// Writes `bytes` at `position`; the size grows as needed.
    pub(super) fn write(&mut self, position: u64, bytes: &[u8]) {
        let mut rest = bytes;
        let mut at = position;
        while !rest.is_empty() {
            let offset = (at % PAGE as u64) as usize;
            let count = rest.len().min(PAGE - offset);
            self.page_mut((at / PAGE as u64) as usize)[offset..offset + count]
                .copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            at += count as u64;
        }
        self.size = self.size.max(position + bytes.len() as u64);
    }

    /// Fills `bytes` from `position` on; what lies beyond the size reads as zeros.
    pub(super) fn read(&self, position: u64, bytes: &mut [u8]) {
        let mut at = position;
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = (at % PAGE as u64) as usize;
            let count = rest.len().min(PAGE - offset);
            let (piece, others) = rest.split_at_mut(count);
            match self.pages.get((at / PAGE as u64) as usize) {
                Some(Some(page)) => piece.copy_from_slice(&page[offset..offset + count]),
                _ => piece.fill(0),
            }
            rest = others;
            at += count as u64;
        }
    }

    /// Cuts or extends to `size`; an extension takes no space.
    pub(super) fn resize(&mut self, size: u64) {
        if size < self.size {
            let kept = size.div_ceil(PAGE as u64) as usize;
            if self.pages.len() > kept {
                let cut = Rc::make_mut(&mut self.pages).split_off(kept);
                self.allocated -= cut.iter().flatten().count() as u64;
            }
            let offset = (size % PAGE as u64) as usize;
            if offset > 0 && self.pages.get(kept - 1).is_some_and(Option::is_some) {
                self.page_mut(kept - 1)[offset..].fill(0);
            }
        }
        self.size = size;
    }

    /// Extends to `size` with space taken for all of it; never cuts.
    pub(super) fn allocate_to(&mut self, size: u64) {
        let count = size.div_ceil(PAGE as u64) as usize;
        if self.missing_pages(0, size) > 0 {
            let zeros = Rc::new([0; PAGE]);
            let pages = Rc::make_mut(&mut self.pages);
            pages.resize(pages.len().max(count), None);
            for page in pages[..count].iter_mut().filter(|page| page.is_none()) {
                *page = Some(zeros.clone());
                self.allocated += 1;
            }
        }
        self.size = self.size.max(size);
    }

    /// Flips the bits of `mask` in one byte, if the file has it.
    pub(super) fn flip(&mut self, position: u64, mask: u8) {
        if position < self.size {
            self.page_mut((position / PAGE as u64) as usize)[(position % PAGE as u64) as usize] ^= mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(content: &Content, position: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![9; length];
        content.read(position, &mut bytes);
        bytes
    }

    #[test]
    fn copies_do_not_see_later_writes() {
        let mut content = Content::default();
        content.write(PAGE as u64 - 2, b"abcd");
        let copy = content.clone();
        content.write(PAGE as u64, b"X");
        assert_eq!(bytes(&content, PAGE as u64 - 2, 4), b"abXd");
        assert_eq!(bytes(&copy, PAGE as u64 - 2, 4), b"abcd");
        assert_eq!((copy.size(), copy.allocated_pages()), (PAGE as u64 + 2, 2));
    }

    #[test]
    fn a_cut_forgets_and_an_allocation_takes_space() {
        let mut content = Content::default();
        content.write(0, &[7; PAGE + 10]);
        content.resize(100);
        content.resize(200);
        assert_eq!(bytes(&content, 98, 4), [7, 7, 0, 0]);
        assert_eq!(content.allocated_pages(), 1);
        content.allocate_to(4 * PAGE as u64);
        assert_eq!((content.size(), content.allocated_pages()), (4 * PAGE as u64, 4));
        assert_eq!(content.missing_pages(3 * PAGE as u64, 2 * PAGE as u64), 1);
        content.allocate_to(1);
        assert_eq!(content.size(), 4 * PAGE as u64);
        content.flip(0, 1);
        assert_eq!(bytes(&content, 0, 1), [6]);
    }
}
